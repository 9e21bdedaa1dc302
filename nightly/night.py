"""A nightly comparison: measure, keep, hold against the baseline, confirm, report. One call a night, from cron or CI.

The order is such that nothing is lost: the history knows of the night before it is measured, has its figures before
they are judged, and its verdict before anybody is told.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from driver.errors import BenchError, ExitCode
from driver.profile.read import Profile
from driver.run.manifest import utc_now
from nightly.aftermath import old_nights, recent_shifts, void_reasons
from nightly.gate_rules import Choice
from nightly.guard import TimeLimitError, only_one, time_limit
from nightly.history.store import GateRow, History, HistoryError, read_run
from nightly.judgement import Judge
from nightly.measurement import Measure, Measured, remove_old_folders, tonight_only
from nightly.outcome import in_words
from nightly.result import Finding, NightResult


@dataclass(frozen=True, slots=True)
class NightlyOptions:
    """How a night is run. `engines` empty means all of the profile; `keep` is a number of nights whose folders stay."""

    history: Path
    out: Path
    choice: Choice
    threshold: float
    engines: tuple[str, ...] = ()
    time_limit_s: float | None = None
    confirm: bool = True
    keep: int | None = None


Report = Callable[[NightResult], None]


def nightly(
    profile: Profile, options: NightlyOptions, measure: Measure, report: Report, *, now: str | None = None
) -> NightResult:
    """Run one night; `report` is called once with its result, also where the night fails, before the error is raised.

    Raises:
        BenchError: the profile can't be judged (exit code 2); another nightly holds the lock, the run failed, or the
            time limit passed (exit code 4).
        HistoryError: the history cannot be read or written.
    """
    profile = tonight_only(profile, options.engines)
    if options.choice.mode == "run" and len(profile.engines) < 2:
        raise BenchError("baseline run: needs two engines in tonight's run", ExitCode.USAGE)
    with only_one(options.history.with_name(f"{options.history.name}.lock")):
        created = now or utc_now()
        stamp = "".join(char for char in created if char.isdigit())
        result = NightResult(f"{profile.name[:32]}-nightly-{stamp}", profile.name, str(options.choice))
        try:
            with History(options.history) as history:
                history.mark_abandoned()
                try:
                    _one_night(history, profile, options, measure, result, created)
                except BaseException as error:
                    with contextlib.suppress(HistoryError):
                        history.end(result.run_id, exit_code=in_words(error)[1], note=in_words(error)[0])
                    raise
        except BaseException as error:
            result.failure, result.exit_code = in_words(error)
            result.status = "partial" if result.status == "running" else result.status
            report(result)
            if isinstance(error, TimeLimitError):
                raise BenchError(result.failure, ExitCode.FAILURE) from None
            raise
        report(result)
    return result


def _one_night(
    history: History, profile: Profile, options: NightlyOptions, measure: Measure, result: NightResult, created: str
) -> None:
    ends = None if options.time_limit_s is None else time.monotonic() + options.time_limit_s
    run = _measured(history, profile, measure, result.run_id, "nightly", None, created, ends)
    result.run_id = run.folder.run_id
    result.status = history.get(result.run_id).status
    result.report = str(run.report) if run.report else None
    if result.status == "void":
        result.void = void_reasons(run)
        result.exit_code = int(ExitCode.VOID)
        history.add_gates(result.run_id, [], result.exit_code)
        return
    judge = Judge(history, profile, options.choice, options.threshold)
    found = judge.night(result.run_id)
    result.findings, result.breaks, result.builds = found.findings, found.breaks, found.builds
    slower = result.by_verdict("regression")
    if slower:
        # Until a second measurement has spoken it is a suspicion, whatever happens from here on.
        result.findings = [replace(f, verdict="suspected") if f in slower else f for f in result.findings]
        _keep(history, result, ExitCode.REGRESSION)
        if options.confirm:
            _confirm(history, profile, judge, measure, result, found.findings, created, ends)
    failed = result.by_verdict("regression", "suspected") or not run.all_ok
    _keep(history, result, ExitCode.REGRESSION if failed else ExitCode.DONE)
    result.trends = recent_shifts(history, profile)
    if options.keep is not None:
        remove_old_folders(options.out, old_nights(history, profile, options.keep))


def _confirm(
    history: History,
    profile: Profile,
    judge: Judge,
    measure: Measure,
    result: NightResult,
    findings: list[Finding],
    created: str,
    ends: float | None,
) -> None:
    """Measure the engines and cells that look slower once more, and keep only what is borne out."""
    slower = [finding for finding in findings if finding.verdict == "regression"]
    engines = {finding.engine for finding in slower}
    if judge.choice.mode == "run":
        engines.add(profile.baseline)
    cells = tuple(c.label for c in profile.cells if any(f.cell == c.label for f in slower))
    again = tonight_only(profile, tuple(sorted(engines)), cells)
    second = _measured(
        history, again, measure, f"{result.run_id}-confirm", "confirmation", result.run_id, created, ends
    )
    if history.get(second.folder.run_id).status != "complete":
        status = history.get(second.folder.run_id).status
        raise BenchError(
            f"{second.folder.path}: the second measurement is {status}; the regression stays a suspicion", ExitCode.VOID
        )
    result.findings = judge.confirm(result.run_id, second.folder.run_id, findings)


def _measured(
    history: History,
    profile: Profile,
    measure: Measure,
    run_id: str,
    kind: str,
    confirms: str | None,
    created: str,
    ends: float | None,
) -> Measured:
    """Measure and import one run; one that does not reach its end stays in the history as partial, with the reason."""
    history.begin(run_id, created, profile.name, kind, confirms)
    try:
        with time_limit(None if ends is None else ends - time.monotonic()):
            run = measure(profile, run_id)
        imported = read_run(run.folder)
        if run.folder.run_id != run_id:
            # Measured before, under a name of its own.
            history.forget(run_id)
        imported.kind, imported.confirms = kind, confirms
        history.add(imported)
    except BaseException as error:
        with contextlib.suppress(HistoryError):
            note, code = in_words(error)
            history.end(run_id, status="partial", exit_code=code, note=note)
        raise
    return run


def _keep(history: History, result: NightResult, code: ExitCode) -> None:
    result.exit_code = int(code)
    rows = []
    for f in result.findings:
        low, high = f.ci or (None, None)
        rows.append(GateRow(f.engine, f.cell, f.metric, f.baseline, f.ratio, low, high, f.limit, f.verdict, f.evidence))
    history.add_gates(result.run_id, rows, result.exit_code)
