"""Measuring for a night: the real runner, and run folders that were measured before."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from driver.errors import BenchError, ExitCode
from driver.profile.read import Profile
from nightly.history.store import own_comparisons
from records import JsonObject, RunFolder, read_json


@dataclass(frozen=True, slots=True)
class Measured:
    """A run that was measured and compared. `report` is the report for people, where one was written."""

    folder: RunFolder
    comparison: JsonObject
    all_ok: bool
    report: Path | None = None


Measure = Callable[[Profile, str], Measured]
"""Runs a profile under a run id, to the end and compared; raises `BenchError` where it could not be measured."""


def measure_with(profile_path: Path, out: Path, *, quiet: bool) -> Measure:
    """The real runner: as `run PROFILE`, then score, audit, compare and report."""

    def measure(profile: Profile, run_id: str) -> Measured:
        # Here, since pandas and scipy take a second that a refused second nightly should not spend.
        from driver import judge
        from driver.run.progress import Display
        from driver.run.run import run_profile

        result = run_profile(profile, profile_path, out, run_id, Display(quiet=quiet))
        comparison, path = judge.judge(result.folder)
        written = judge.write_reports(comparison, path)
        all_ok = judge.exit_code(comparison, all_ok=result.all_ok) != ExitCode.REGRESSION
        return Measured(result.folder, comparison, all_ok, written[0] if written else None)

    return measure


def take_measured(folders: tuple[Path, ...]) -> Measure:
    """Take run folders that are there already, in order: the first for the night, the second to confirm it."""
    waiting = list(folders)

    def measure(profile: Profile, run_id: str) -> Measured:
        if not waiting:
            raise BenchError(
                "a second measurement is needed to confirm; name its folder with another --measured", ExitCode.FAILURE
            )
        folder = RunFolder(waiting.pop(0))
        if not folder.manifest.exists():
            raise BenchError(f"{folder.path}: no run.json there; give the folder of a run")
        found = own_comparisons(folder)
        try:
            comparison = read_json(found[-1]) if found else _judged(folder)
        except (OSError, ValueError) as error:
            raise BenchError(f"{folder.path}: {error}") from None
        failed = any(row["status"] == "error" and row["phase"] != "warmup" for row in comparison.get("requests", []))
        return Measured(folder, comparison, not failed)

    return measure


def _judged(folder: RunFolder) -> JsonObject:
    from driver import judge

    return judge.judge(folder)[0]


def tonight_only(profile: Profile, engines: tuple[str, ...], cells: tuple[str, ...] = ()) -> Profile:
    """The profile with some of its engines and cells: one engine against stored figures, or what has to be confirmed.

    Raises:
        BenchError: a name that the profile does not have (exit code 2).
    """
    for name in engines:
        if name not in [engine.name for engine in profile.engines]:
            known = ", ".join(engine.name for engine in profile.engines)
            raise BenchError(f"--engine {name!r}: the profile has {known}", ExitCode.USAGE)
    kept = tuple(engine for engine in profile.engines if not engines or engine.name in engines)
    asked = tuple(cell for cell in profile.cells if not cells or cell.label in cells)
    workloads = {name: section for name, section in profile.workloads.items() if any(c.workload == name for c in asked)}
    baseline = profile.baseline if profile.baseline in [engine.name for engine in kept] else kept[0].name
    return profile.model_copy(update={"engines": kept, "cells": asked, "workloads": workloads, "baseline": baseline})


def remove_old_folders(out: Path, run_ids: list[str]) -> list[str]:
    """Delete run folders by id under the output folder; only what is a run's folder. The ids that were deleted."""
    gone = []
    for run_id in run_ids:
        path = out / run_id
        if path.parent == out and (path / "run.json").is_file() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
            gone.append(run_id)
    return gone
