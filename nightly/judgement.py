"""Holds the figures of a night against their baseline, and a second measurement against both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypedDict

from driver.profile.read import Profile
from nightly.baseline import Baseline, stored_baseline
from nightly.gate_rules import Choice
from nightly.history.store import History, QualityRow, RunInfo
from nightly.history.trends import breaks_between
from nightly.result import Finding
from scoring.metrics import higher_is_better
from scoring.quality.accuracy import DEFAULT_MARGIN_POINTS
from scoring.statistics.answers_gate import decide_answers
from scoring.statistics.gate import Decision, confirmed, decide, night_to_night_sd


class _Rules(TypedDict):
    higher_is_better: bool
    threshold: float
    aa_sd: float | None
    interleaved: bool


ACCURACY = "accuracy"
NOISE_NIGHTS = 20


@dataclass(slots=True)
class Comparison:
    """The findings of one night, with what they were held against, and what a reader must know about the series."""

    findings: list[Finding] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    builds: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Judge:
    """Compares runs that are in the history, by the rules of one profile."""

    history: History
    profile: Profile
    choice: Choice
    threshold: float

    def night(self, run_id: str) -> Comparison:
        """Judge every figure that the gate of the profile names, and the answers, of a run."""
        tonight = self.history.get(run_id)
        found = Comparison()
        for engine, cell, metric in self._questions(run_id):
            baseline, of_engine = self._baseline(tonight, engine, cell)
            self._note(found, tonight, engine, baseline)
            if metric == ACCURACY:
                decision, before, now = self._answers(baseline, of_engine, run_id, engine, cell)
            else:
                decision, before, now = self._speed(baseline, of_engine, tonight, engine, cell, metric)
            label = self._label(baseline, of_engine, metric)
            evidence = baseline.why_none or decision.evidence
            verdict, ratio, ci, limit = decision.verdict, decision.ratio, decision.ci, decision.limit
            row = Finding(engine, cell, metric, verdict, label, ratio, ci, limit, before, now, None, evidence)
            found.findings.append(row)
        return found

    def confirm(self, run_id: str, second_id: str, findings: list[Finding]) -> list[Finding]:
        """The same findings, each regression now confirmed or not by the second run."""
        tonight = self.history.get(run_id)
        return [self._confirmed(tonight, second_id, f) if f.verdict == "regression" else f for f in findings]

    def _confirmed(self, tonight: RunInfo, second_id: str, first: Finding) -> Finding:
        baseline, of_engine = self._baseline(tonight, first.engine, first.cell)
        if first.metric == ACCURACY:
            again, _, now = self._answers(baseline, of_engine, second_id, first.engine, first.cell)
            holds = again.verdict == "regression"
            evidence = f"{first.evidence}; second: {again.evidence}"
            return replace(first, verdict="regression" if holds else "unconfirmed", second=now, evidence=evidence)
        figures = self.history.rounds(second_id, first.engine, first.cell, first.metric)
        if not figures:
            return replace(first, verdict="suspected", evidence=f"{first.evidence}; the second run lacks this figure")
        both = [*self.history.rounds(tonight.run_id, first.engine, first.cell, first.metric), *figures]
        earlier = self._earlier(baseline, of_engine, tonight.run_id, first)
        # With both engines run, the second measurement has a baseline of its own.
        fresh = self._earlier(baseline, of_engine, second_id, first) if self.choice.mode == "run" else earlier
        pooled_with = [[*earlier[0], *fresh[0]]] if self.choice.mode == "run" and earlier and fresh else earlier
        rules = self._rules(tonight, baseline, first.engine, first.cell, first.metric)
        one = decide(earlier, self.history.rounds(tonight.run_id, first.engine, first.cell, first.metric), **rules)
        two, pooled = decide(fresh, figures, **rules), decide(pooled_with, both, **rules)
        evidence = f"{first.evidence}; both together {pooled.ratio or 0:.3f}"
        return replace(
            first,
            verdict="regression" if confirmed(one, two, pooled) else "unconfirmed",
            second=sum(figures) / len(figures),
            evidence=evidence,
        )

    def _questions(self, run_id: str) -> Iterator[tuple[str, str, str]]:
        """(engine, cell, metric) of all that is judged."""
        skipped = self.profile.baseline if self.choice.mode == "run" else None
        figures = {
            (f.engine, f.cell, f.metric) for f in self.history.figures(run_id) if f.metric in self.profile.gate.metrics
        }
        answers = {(q.engine, q.cell, ACCURACY) for q in self.history.quality(run_id)}
        for question in sorted(figures) + sorted(answers):
            if question[0] != skipped:
                yield question

    def _baseline(self, tonight: RunInfo, engine: str, cell: str) -> tuple[Baseline, str]:
        """The runs to compare with, and the engine whose figures in them count."""
        if self.choice.mode == "run":
            other = self.profile.baseline
            if other not in self.history.engines(tonight.run_id):
                return Baseline((), f"the baseline engine {other} did not run tonight"), other
            return Baseline((tonight.run_id,)), other
        return stored_baseline(self.history, self.choice, tonight, engine, cell), engine

    def _label(self, baseline: Baseline, of_engine: str, metric: str) -> str | None:
        if not baseline.run_ids:
            return None
        if self.choice.mode == "run":
            return f"{of_engine} tonight"
        # Answers are held against the newest night alone, problem by problem.
        before = 0 if metric == ACCURACY else len(baseline.run_ids) - 1
        more = f" and {before} before" if before else ""
        return f"{baseline.run_ids[0]}{more}"

    def _note(self, found: Comparison, tonight: RunInfo, engine: str, baseline: Baseline) -> None:
        """Say once that a series is broken, and that an engine has another build than its baseline."""
        if baseline.why_none.startswith("series broken"):
            note = f"{engine}: {baseline.why_none}"
            if note not in found.breaks:
                found.breaks.append(note)
        builds = {name: info.build or "unknown" for name, info in self.history.engines(tonight.run_id).items()}
        note = ""
        if self.choice.mode == "run":
            other = self.profile.baseline
            note = f"{other} is {builds.get(other)}, {engine} is {builds[engine]}"
        elif baseline.run_ids:
            was = self.history.engines(baseline.run_ids[0])[engine].build or "unknown"
            if was != builds[engine]:
                note = f"{engine}: {was} -> {builds[engine]} (baseline {baseline.run_ids[0]})"
        if note and note not in found.builds:
            found.builds.append(note)

    def _speed(
        self, baseline: Baseline, of_engine: str, tonight: RunInfo, engine: str, cell: str, metric: str
    ) -> tuple[Decision, float | None, float | None]:
        now = self.history.rounds(tonight.run_id, engine, cell, metric)
        earlier = [self.history.rounds(run_id, of_engine, cell, metric) for run_id in baseline.run_ids]
        flat = [value for night in earlier for value in night]
        if not flat:
            return Decision("not judged", None, None, None, "the baseline lacks this figure"), None, _mean(now)
        decision = decide(earlier, now, **self._rules(tonight, baseline, engine, cell, metric))
        return decision, _mean(flat), _mean(now)

    def _rules(self, tonight: RunInfo, baseline: Baseline, engine: str, cell: str, metric: str) -> _Rules:
        interleaved = self.choice.mode == "run"
        return {
            "higher_is_better": higher_is_better(metric),
            "threshold": self.threshold,
            "aa_sd": None if interleaved else self._noise(tonight, engine, cell, metric),
            "interleaved": interleaved,
        }

    def _noise(self, tonight: RunInfo, engine: str, cell: str, metric: str) -> float | None:
        """How far good nights of the same series and build lie from one another."""
        build = self.history.engines(tonight.run_id)[engine].build
        nights: list[list[float]] = []
        for run in reversed(self.history.runs(profile=tonight.profile, good=True)):
            info = self.history.engines(run.run_id).get(engine)
            if run.created_utc >= tonight.created_utc or info is None or info.build != build:
                continue
            if breaks_between(self.history, run, tonight, engine, cell):
                break
            nights.append(self.history.rounds(run.run_id, engine, cell, metric))
            if len(nights) == NOISE_NIGHTS:
                break
        return night_to_night_sd(nights)

    def _earlier(self, baseline: Baseline, of_engine: str, run_id: str, finding: Finding) -> list[list[float]]:
        run_ids = (run_id,) if self.choice.mode == "run" else baseline.run_ids
        return [self.history.rounds(each, of_engine, finding.cell, finding.metric) for each in run_ids]

    def _answers(
        self, baseline: Baseline, of_engine: str, run_id: str, engine: str, cell: str
    ) -> tuple[Decision, float | None, float | None]:
        now = self._quality(run_id, engine, cell)
        if not baseline.run_ids:
            return Decision("not judged", None, None, None, ""), None, now.accuracy if now else None
        source = run_id if self.choice.mode == "run" else baseline.run_ids[0]
        before = self._quality(source, of_engine, cell)
        if before is None or now is None or None in (before.correct, before.n, now.correct, now.n):
            return Decision("not judged", None, None, None, "no graded answers on both sides"), None, None
        pairs = None
        if before.outcomes and now.outcomes and before.outcomes.keys() == now.outcomes.keys():
            pairs = [(was, now.outcomes[prompt]) for prompt, was in before.outcomes.items()]
        workload = next((c.workload_name for c in self.profile.cells if c.label == cell), cell)
        margin = self.profile.parity_margin.get(workload, DEFAULT_MARGIN_POINTS)
        decision = decide_answers((before.correct or 0, before.n or 0), (now.correct or 0, now.n or 0), pairs, margin)
        return decision, before.accuracy, now.accuracy

    def _quality(self, run_id: str, engine: str, cell: str) -> QualityRow | None:
        rows = self.history.quality(run_id)
        return next((row for row in rows if row.engine == engine and row.cell == cell), None)


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
