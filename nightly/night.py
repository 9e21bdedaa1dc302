"""Runs a nightly comparison: measure, store, compare with the baseline, confirm, report. One call per night.

The order ensures that nothing is lost: the history records the night before it is measured, its figures before they are
judged, and its verdict before it is reported.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from nightly.driver_interface import Measure, Measured
from nightly.errors import NightError, TimeLimitError, describe_error
from nightly.gate_rules import GateRules
from nightly.guard import only_one, time_limit
from nightly.history.store import GateRow, History, HistoryError, read_run
from nightly.history.trends import recent_shifts
from nightly.judgement import Judge
from nightly.result import Finding, NightResult
from records.exit_codes import ExitCode


@dataclass(frozen=True, slots=True)
class NightlyOptions:
    """Options of a night. `keep` is the number of nights whose run folders are kept."""

    history: Path
    out: Path
    rules: GateRules
    time_limit_s: float | None = None
    confirm: bool = True
    keep: int | None = None


Report = Callable[[NightResult], None]


def nightly(options: NightlyOptions, measure: Measure, report: Report, *, now: str) -> NightResult:
    """Run one night that begins at `now` (ISO 8601, UTC).

    `report` is called once with the result. If the night fails, it is called before the error is raised.

    Raises:
        NightError: the rules cannot be applied (exit code 2); another nightly holds the lock, or the time limit passed
            (exit code 4); the second measurement is void (exit code 3).
        HistoryError: the history cannot be read or written.
    """
    rules = options.rules
    if rules.choice.mode == "run" and len(rules.engines) < 2:
        raise NightError("baseline run: needs two engines in tonight's run", ExitCode.USAGE)
    with only_one(options.history.with_name(f"{options.history.name}.lock")):
        stamp = "".join(char for char in now if char.isdigit())
        result = NightResult(f"{rules.profile[:32]}-nightly-{stamp}", rules.profile, str(rules.choice))
        try:
            with History(options.history) as history:
                history.mark_abandoned()
                try:
                    _Night(history, options, measure, result, now).run()
                except BaseException as error:
                    with contextlib.suppress(HistoryError):
                        note, code = describe_error(error)
                        history.end(result.run_id, exit_code=code, note=note)
                    raise
        except BaseException as error:
            result.failure, result.exit_code = describe_error(error)
            result.status = "partial" if result.status == "running" else result.status
            report(result)
            if isinstance(error, TimeLimitError):
                raise NightError(result.failure) from None
            raise
        report(result)
    return result


class _Night:
    """One night in progress: measures, judges and confirms, and fills the result."""

    def __init__(
        self, history: History, options: NightlyOptions, measure: Measure, result: NightResult, now: str
    ) -> None:
        self.history = history
        self.options = options
        self.measure = measure
        self.result = result
        self.now = now
        limit = options.time_limit_s
        self.deadline = None if limit is None else time.monotonic() + limit
        self.judge = Judge(history, options.rules)

    def run(self) -> None:
        """Run the night from its measurement to its verdict."""
        history, result = self.history, self.result
        run = self._measured(self.options.rules, result.run_id, "nightly", None)
        result.run_id = run.folder.run_id
        result.status = history.get(result.run_id).status
        result.report = str(run.report) if run.report else None
        result.folder = str(run.folder.path)
        if result.status == "void":
            result.void = run.void_reasons()
            result.exit_code = int(ExitCode.VOID)
            history.add_gates(result.run_id, [], result.exit_code)
            return
        night = self.judge.night(result.run_id)
        result.findings, result.breaks, result.builds = night.findings, night.breaks, night.builds
        if any(finding.wants_confirmation for finding in night.findings):
            # Until a second measurement confirms it, it is stored as a suspicion, even if the night stops here.
            result.findings = [
                replace(f, verdict="suspected") if f.wants_confirmation and f.verdict == "regression" else f
                for f in night.findings
            ]
            self._keep(ExitCode.REGRESSION)
            if self.options.confirm:
                self._confirm(night.findings)
        failed = result.failing or not run.all_ok
        self._keep(ExitCode.REGRESSION if failed else ExitCode.DONE)
        result.trends = recent_shifts(history, self.options.rules.profile, self.options.rules.metrics)
        if self.options.keep is not None:
            _remove_folders(self.options.out, history.nights_beyond(self.options.rules.profile, self.options.keep))

    def _confirm(self, findings: list[Finding]) -> None:
        """Measure the engines and cells that look slower once more, and keep only confirmed regressions."""
        rules = self.options.rules
        slower = [finding for finding in findings if finding.wants_confirmation]
        engines = {finding.engine for finding in slower}
        if rules.choice.mode == "run":
            engines.add(rules.baseline_engine)
        again = rules.only(sorted(engines), [finding.cell for finding in slower])
        second = self._measured(again, f"{self.result.run_id}-confirm", "confirmation", self.result.run_id)
        second_id = second.folder.run_id
        status = self.history.get(second_id).status
        if status != "complete":
            raise NightError(
                f"{second.folder.path}: the second measurement is {status}, so the regression is only suspected",
                ExitCode.VOID,
            )
        if self.history.same_figures(self.result.run_id, second_id):
            raise NightError(
                f"{second.folder.path}: has the same figures as the first measurement, so it confirms nothing; "
                "the second measurement must be another run",
                ExitCode.USAGE,
            )
        self.result.findings = self.judge.confirm(self.result.run_id, second_id, findings)

    def _measured(self, rules: GateRules, run_id: str, kind: str, confirms: str | None) -> Measured:
        """Measure and import one run. A run that does not end normally stays in the history as partial."""
        history = self.history
        history.begin(run_id, self.now, rules.profile, kind, confirms)
        try:
            with time_limit(None if self.deadline is None else self.deadline - time.monotonic()):
                run = self.measure(rules, run_id)
            imported = read_run(run.folder)
            if run.folder.run_id != run_id:
                # The run was measured before, under its own run id.
                history.forget(run_id)
            imported.kind, imported.confirms = kind, confirms
            history.add(imported, requests_failed=not run.all_ok)
        except BaseException as error:
            with contextlib.suppress(HistoryError):
                note, code = describe_error(error)
                history.end(run_id, status="partial", exit_code=code, note=note)
            raise
        return run

    def _keep(self, code: ExitCode) -> None:
        self.result.exit_code = int(code)
        rows = []
        for f in self.result.findings:
            low, high = f.ci or (None, None)
            rows.append(
                GateRow(
                    f.engine, f.cell, f.metric, f.baseline, f.ratio, low, high, f.limit, f.verdict, f.evidence, f.since
                )
            )
        self.history.add_gates(self.result.run_id, rows, self.result.exit_code)


def _remove_folders(out: Path, run_ids: list[str]) -> None:
    """Delete run folders by id under the output folder, and nothing else."""
    for run_id in run_ids:
        path = out / run_id
        if path.parent == out and (path / "run.json").is_file() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
