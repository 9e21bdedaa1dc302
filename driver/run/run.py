"""Runs a whole profile: prepares the run's folder, runs the rounds of the plan, and decides when to stop."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from driver.errors import BenchError, ExitCode, Stopped, writing
from driver.profile.read import Profile
from driver.run.engine_setup import from_here, make_engine
from driver.run.manifest import has_records, open_manifest
from driver.run.pinning import are_here
from driver.run.plan import DEFAULT_OUT, EngineRound, engine_rounds, pending
from driver.run.progress import Display
from driver.run.prompts import load_workloads, write_workloads
from driver.run.reproduce import compare_command, run_command
from driver.run.round import run_engine_round
from driver.run.stopping import TimeLimit, shortened
from driver.run.token_counts import count_in_run, open_tokenizer
from records import NAME, JsonObject, RunFolder, read_json, write_json
from records.lock import LockedError, exclusive
from records.utc import utc_for_run_id
from records.wording import count

_LOCK = ".lock"


@dataclass(frozen=True, slots=True)
class RunResult:
    """The folder of a run, and whether every measured request was ok."""

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
    side_of: float | None = None,
) -> RunResult:
    """Start a run, or finish the run `run_id`; `keep_raw` keeps the bytes of failed requests.

    If the profile has no file, `made_by` is the command line that made it and starts the same run. With
    `rounds = "auto"` and `side_of`, the run goes on until the speed ratios lie on one side of that ratio.

    Raises:
        BenchError: the run stopped. All measurements stay in the folder, and the same run id continues it.
    """
    if run_id is not None:
        require_run_id(run_id)
    # Before the folder is created: a workload that can't be loaded must leave no folder.
    workloads = load_workloads(profile)
    tokenizer = open_tokenizer(from_here(profile.tokenizer)) if profile.tokenizer else None
    folder = RunFolder(out / (run_id or new_run_id(profile)))
    with writing(folder.path, hint="give a writable folder with --out"):
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
                all_ok = _run_rounds(folder, profile, manifest, display, keep_raw=keep_raw, side_of=side_of)
            if tokenizer is not None:
                count_in_run(folder, [engine.name for engine in profile.engines], tokenizer)
            manifest["took_s"] = round(time.monotonic() - started, 1)
            write_json(folder.manifest, manifest)
    return RunResult(folder, all_ok)


def _run_rounds(
    folder: RunFolder,
    profile: Profile,
    manifest: JsonObject,
    display: Display,
    *,
    keep_raw: bool,
    side_of: float | None = None,
) -> bool:
    """Run the incomplete rounds of the plan; returns whether every measured request was ok."""
    plan = list(engine_rounds(profile))
    display.cells_total = sum(len(pending(folder, round_)) for round_ in plan)
    display.say(f"run {folder.run_id}: {count(display.cells_total, 'cell')} to do, in {folder.path}")
    _report_early(profile, [round_ for round_ in plan if pending(folder, round_)], display)
    all_ok = True
    # An interrupted run has judged its earlier rounds already, and must finish the round that it began.
    begun = max(
        (round_.number for round_ in plan if folder.round(round_.engine.name, round_.number).path.exists()), default=1
    )
    limit = TimeLimit(profile, display.say, side_of)
    manifest.pop("stopped", None)
    for number, of_round in groupby(plan, key=lambda round_: round_.number):
        planned = list(of_round)
        for round_ in planned:
            all_ok &= run_engine_round(folder, profile, shortened(round_, limit.share), display, keep_raw=keep_raw)
        if number < begun or not limit.applies:
            continue
        # Recorded before the figures are judged: this many rounds are complete, whatever ends the run now.
        order = [[round_.engine.name, round_.number] for round_ in plan if round_.number <= number]
        manifest |= {"rounds_done": number, "order": order}
        write_json(folder.manifest, manifest)
        if (stop := limit.after_round(folder, number, planned)) is not None:
            display.say(stop)
            manifest |= {"stopped": stop}
            break
    return all_ok


def _report_early(profile: Profile, pending_rounds: Sequence[EngineRound], display: Display) -> None:
    """Report before the first measurement what would otherwise show in the middle of a run.

    Raises:
        BenchError: the program of an engine's command line does not exist.
    """
    asked = [*(engine.cores for engine in profile.engines), *(cell.cores for cell in profile.cells)]
    for cores in dict.fromkeys(asked):
        if not are_here(cores):
            display.say(f"this machine does not have cores {cores}: processes that ask for them are not pinned")
    for section in profile.engines:
        if section.kind == "command" and any(round_.engine == section for round_ in pending_rounds):
            make_engine(section, profile, display)


def require_run_id(run_id: str) -> None:
    """Check that a run id can be the name of a folder.

    Raises:
        BenchError: it can't (exit code 2).
    """
    if not NAME.fullmatch(run_id):
        expected = "letters, digits, '.', '_' and '-' were expected, a letter or digit first, at most 64"
        raise BenchError(f"--run-id {run_id!r}: {expected}", ExitCode.USAGE)


@contextmanager
def _going_on(folder: RunFolder, again: str) -> Iterator[None]:
    """Add to every error that stops a run the command that continues it: `again --run-id ...`."""
    hint = f"go on with: {again} --run-id {folder.run_id}"
    try:
        with writing(folder.path, hint=hint):
            yield
    except (BenchError, Stopped) as end:
        if getattr(end, "profile_must_change", False):
            # A run with measurements can be finished only with the profile with which it was started.
            hint = f"change the profile, then {'start a new run' if has_records(folder) else hint}"
        end.hint = hint
        raise


def open_run(path: Path) -> RunFolder:
    """Find a run's folder by path or by run id under bench-out/; a plain `locust` capture counts too.

    Raises:
        BenchError: there is no manifest (exit code 2).
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
    """Hold the lock of a run's folder, so that only one process writes to it.

    Raises:
        BenchError: another process holds it.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(exclusive(folder.path / _LOCK))
        except LockedError as holder:
            what = f"another enginebench process is using it ({holder}); wait for it or stop it"
            raise BenchError(f"{folder.path}: {what}") from None
        yield
