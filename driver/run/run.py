"""A whole run: prepare the folder, live through the plan, then judge what was captured."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from driver.errors import BenchError, ExitCode, Stopped, writing
from driver.profile.read import Profile
from driver.run.engine_setup import from_here, make_engine
from driver.run.manifest import has_records, open_manifest
from driver.run.pinning import are_here
from driver.run.plan import DEFAULT_OUT, lives, pending
from driver.run.progress import Display
from driver.run.prompts import load_workloads, write_workloads
from driver.run.reproduce import compare_command, run_command
from driver.run.round import run_life
from driver.run.stopping import fitting_share, shortened, why_stop, why_stop_counted
from driver.run.token_counts import count_in_run, open_tokenizer
from records import NAME, JsonObject, RunFolder, read_json, write_json
from records.lock import LockedError, exclusive
from records.utc import utc_for_run_id
from records.wording import count
from scoring.statistics.rounds import FEWEST_ROUNDS

_LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run left, and whether every measured request was ok."""

    folder: RunFolder
    all_ok: bool


def new_run_id(profile: Profile) -> str:
    """A run's name sorts by time: `<profile>-<UTC stamp>`."""
    return f"{profile.name}-{utc_for_run_id()}"


def run_profile(
    profile: Profile,
    profile_path: Path | None,
    out: Path,
    run_id: str | None,
    display: Display,
    *,
    keep_raw: bool = False,
    made_by: str | None = None,
) -> RunResult:
    """Start a run, or finish the one called `run_id`; `keep_raw` keeps the bytes of failed requests.

    A profile without a file was made by the command line `made_by`, which starts the same run.

    Raises:
        BenchError: whatever stops the run; all that was measured stays in the folder, and the same run id goes on.
    """
    if run_id is not None:
        require_run_id(run_id)
    # Before the folder: what can't be asked leaves none behind.
    workloads = load_workloads(profile)
    tokenizer = open_tokenizer(from_here(profile.tokenizer)) if profile.tokenizer else None
    folder = RunFolder(out / (run_id or new_run_id(profile)))
    with writing(folder.path, hint="say where it can be written with --out"):
        folder.path.mkdir(parents=True, exist_ok=True)
        (folder.path / _LOCK).touch()
    with _locked(folder):
        described = {name: workload.described for name, workload in workloads.items()}
        again = run_command(profile_path, out) if profile_path else made_by or ""
        commands = [again, compare_command(folder)]
        manifest = open_manifest(folder, profile, profile_path, described, commands)
        with _going_on(folder, again):
            write_workloads(folder, workloads)
            started = time.monotonic()
            with display:
                all_ok = _live(folder, profile, manifest, display, keep_raw=keep_raw)
            if tokenizer is not None:
                count_in_run(folder, [engine.name for engine in profile.engines], tokenizer)
            manifest["took_s"] = round(time.monotonic() - started, 1)
            write_json(folder.manifest, manifest)
    return RunResult(folder, all_ok)


def _live(folder: RunFolder, profile: Profile, manifest: JsonObject, display: Display, *, keep_raw: bool) -> bool:
    """Live through what the plan still owes; whether every measured request was ok."""
    plan = list(lives(profile))
    display.cells_total = sum(len(pending(folder, life)) for life in plan)
    display.say(f"run {folder.run_id}: {count(display.cells_total, 'cell')} to do, in {folder.path}")
    for cores in dict.fromkeys(
        [*(engine.cores for engine in profile.engines), *(cell.cores for cell in profile.cells)]
    ):
        if not are_here(cores):
            display.say(f"cores {cores} are not on this machine: what asks for them is not pinned")
    for section in profile.engines:
        if section.kind == "command" and any(life.engine == section and pending(folder, life) for life in plan):
            # A mistyped program of the last engine is reported before the first is measured.
            make_engine(section, profile, display)
    all_ok, started, began = True, time.monotonic(), time.monotonic()
    # A run that was interrupted has looked at its earlier rounds, and a round that it began has to be finished.
    begun = max((life.round for life in plan if folder.round(life.engine.name, life.round).path.exists()), default=1)
    share = 1.0
    manifest.pop("stopped", None)
    for number, of_round in groupby(plan, key=lambda life: life.round):
        planned = list(of_round)
        for life in planned:
            all_ok &= run_life(folder, profile, shortened(life, share), display, keep_raw=keep_raw)
        if number < begun or (profile.rounds != "auto" and profile.time is None):
            continue
        # Before the look, and whatever ends the run after it: this many rounds are whole.
        order = [[life.engine.name, life.round] for life in plan if life.round <= number]
        manifest |= {"rounds_done": number, "order": order}
        write_json(folder.manifest, manifest)
        elapsed_s, round_s = time.monotonic() - started, time.monotonic() - began
        began = time.monotonic()
        wanted = FEWEST_ROUNDS if profile.rounds == "auto" else profile.rounds
        if share == 1 and number < wanted:
            left_s = profile.time_s - elapsed_s
            share = fitting_share(planned, round_s=round_s, left_s=left_s, rounds=wanted - number)
            if share < 1:
                round_s -= (1 - share) * sum(cell.duration_s or 0.0 for life in planned for cell in life.cells)
                display.say(f"round {number} took longer than planned: further cells measure {share:.0%} as long")
        times = {"elapsed_s": elapsed_s, "round_s": round_s, "time_s": profile.time_s}
        if profile.rounds == "auto":
            stop = why_stop(folder, number, **times)
        else:
            stop = why_stop_counted(number, profile.rounds, **times)
        if stop is not None:
            display.say(stop)
            manifest |= {"stopped": stop}
            break
    return all_ok


def require_run_id(run_id: str) -> None:
    """A run's name becomes a folder's.

    Raises:
        BenchError: it can't be one (exit code 2).
    """
    if not NAME.fullmatch(run_id):
        expected = "letters, digits, '.', '_' and '-' were expected, a letter or digit first, at most 64"
        raise BenchError(f"--run-id {run_id!r}: {expected}", ExitCode.USAGE)


@contextmanager
def _going_on(folder: RunFolder, again: str) -> Iterator[None]:
    """Whatever stops a run says how to go on with it: with the command `again`."""
    hint = f"go on with: {again} --run-id {folder.run_id}"
    try:
        with writing(folder.path, hint=hint):
            yield
    except (BenchError, Stopped) as end:
        if getattr(end, "profile_must_change", False):
            # A run that has measured something is only finished with the profile that it began with.
            hint = f"change the profile, then {'start a new run' if has_records(folder) else hint}"
        end.hint = hint
        raise


def open_run(path: Path) -> RunFolder:
    """The run folder that a user's word means: a path, or a run id under bench-out/; or a plain `locust` capture.

    Raises:
        BenchError: there is no manifest there (exit code 2).
    """
    if RunFolder(path).is_plain_capture:
        return RunFolder(path)
    for candidate in (path, DEFAULT_OUT / path):
        if (candidate / "run.json").is_file():
            folder = RunFolder(candidate)
            try:
                read_json(folder.manifest)
            except ValueError as error:
                raise BenchError(str(error)) from None
            return folder
    raise BenchError(f"{path}: no run.json there; give the folder of a run, such as bench-out/<run>", ExitCode.USAGE)


@contextmanager
def _locked(folder: RunFolder) -> Iterator[None]:
    """Only one process works in a run's folder at a time.

    Raises:
        BenchError: another one does.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive(folder.path / _LOCK))
        except LockedError as holder:
            what = f"another enginebench process works in it ({holder}); wait for it or end it"
            raise BenchError(f"{folder.path}: {what}") from None
        yield
