"""Measures for a night: runs the profile, or takes run folders that were measured before."""

from __future__ import annotations

from pathlib import Path

from driver.errors import BenchError, ExitCode
from driver.profile.model import Profile
from nightly.driver_interface import Measure, Measured
from nightly.gate_rules import Choice, GateRules
from nightly.history.store import own_comparisons
from records import JsonObject, RunFolder, read_json
from scoring.quality.accuracy import DEFAULT_MARGIN_POINTS


def gate_rules(profile: Profile, choice: Choice, threshold: float | None) -> GateRules:
    """The rules for a night from a profile."""
    return GateRules(
        profile=profile.name,
        baseline_engine=profile.baseline,
        engines=tuple(engine.name for engine in profile.engines),
        cells=tuple(cell.label for cell in profile.cells),
        metrics=profile.gate.metrics,
        margins={
            cell.label: profile.parity_margin.get(cell.workload_name, DEFAULT_MARGIN_POINTS) for cell in profile.cells
        },
        choice=choice,
        threshold=threshold or profile.gate.threshold,
    )


def measure_with(profile: Profile, profile_path: Path, out: Path, *, quiet: bool, keep_raw: bool = False) -> Measure:
    """Measure by running the profile, as `run PROFILE` does: score, audit, compare and report."""

    def measure(rules: GateRules, run_id: str) -> Measured:
        # Imported here, because pandas and scipy would delay a second nightly that is refused.
        from driver import compare_and_report
        from driver.regressions import look_into
        from driver.run.progress import Display
        from driver.run.run import run_profile

        asked = part_of(profile, rules.engines, rules.cells)
        display = Display(quiet=quiet)
        result = run_profile(asked, profile_path, out, run_id, display, keep_raw=keep_raw)
        comparison, path = compare_and_report.judge(result.folder)
        look_into(asked, result.folder, comparison, display)
        written = compare_and_report.write_reports(comparison, path)
        all_ok = compare_and_report.exit_code(comparison, all_ok=result.all_ok) != ExitCode.REGRESSION
        return Measured(result.folder, comparison, all_ok, written[-1] if written else None)

    return measure


def take_measured(folders: tuple[Path, ...]) -> Measure:
    """Take existing run folders in order: the first for the night, the second to confirm it.

    Raises:
        BenchError: a folder is given twice; a measurement cannot confirm itself (exit code 2).
    """
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise BenchError("--measured: the same folder twice; give another run as second measurement", ExitCode.USAGE)
    waiting = list(folders)

    def measure(rules: GateRules, run_id: str) -> Measured:
        if not waiting:
            raise BenchError("a second measurement is needed to confirm; name its folder with another --measured")
        folder = RunFolder(waiting.pop(0))
        if not folder.manifest.exists():
            raise BenchError(f"{folder.path}: no run.json there; give the folder of a run")
        comparisons = own_comparisons(folder)
        try:
            comparison = read_json(comparisons[-1]) if comparisons else _compare(folder)
        except (OSError, ValueError) as error:
            raise BenchError(f"{folder.path}: {error}") from None
        failed = any(row["status"] == "error" and row["phase"] != "warmup" for row in comparison.get("requests", []))
        page = own_comparisons(folder)[-1].with_suffix(".html")
        return Measured(folder, comparison, not failed, page if page.exists() else None)

    return measure


def _compare(folder: RunFolder) -> JsonObject:
    from driver import compare_and_report

    comparison, path = compare_and_report.judge(folder)
    compare_and_report.write_reports(comparison, path)
    return comparison


def part_of(profile: Profile, engines: tuple[str, ...], cells: tuple[str, ...] = ()) -> Profile:
    """The profile reduced to some engines and cells: for one engine against stored figures, or for a confirmation.

    Raises:
        BenchError: the profile does not have an engine of that name (exit code 2).
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
