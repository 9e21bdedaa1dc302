"""Compares the figures of a night with their baseline, and confirms regressions by a second measurement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from nightly.baseline import Earlier, FigureHistory, earlier_nights, figure_history
from nightly.gate_rules import GateRules
from nightly.history.store import FigureRow, History, QualityRow, RunInfo
from nightly.result import Finding
from reporting.format import quantity
from scoring.metrics import higher_is_better, unit_and_better
from scoring.statistics.answers_gate import decide_answers
from scoring.statistics.gate import (
    ALL_NIGHTS,
    Decision,
    Night,
    confirmed,
    decide,
    decide_side_by_side,
    still_regressed,
)

ACCURACY = "accuracy"

Figure = tuple[str, str, str]
"""(engine, cell, metric)"""


@dataclass(slots=True)
class NightVerdict:
    """The findings of one night, with the breaks of its series and the new builds as texts."""

    findings: list[Finding] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    builds: list[str] = field(default_factory=list)


class Judge:
    """Judges runs that are in the history, by the rules of one profile."""

    def __init__(self, history: History, rules: GateRules) -> None:
        self.history = history
        self.rules = rules
        self._rounds: dict[str, dict[Figure, list[float]]] = {}
        self._earlier: dict[tuple[str, str, str], Earlier] = {}

    def night(self, run_id: str) -> NightVerdict:
        """Judge a run's answers and every figure that the gate names."""
        tonight = self.history.get(run_id)
        verdict = NightVerdict()
        figures = list(self._figures(tonight))
        for engine, cell, metric in figures:
            verdict.findings.append(self._judged(tonight, (engine, cell, metric), len(figures)))
            self._note(verdict, tonight, engine, cell)
        return verdict

    def confirm(self, run_id: str, second_id: str, findings: list[Finding]) -> list[Finding]:
        """The same findings; the second run confirms each new regression, or does not."""
        tonight = self.history.get(run_id)
        return [self._confirmed(tonight, second_id, f, findings) if f.wants_confirmation else f for f in findings]

    def _figures(self, tonight: RunInfo) -> Iterator[Figure]:
        """All figures to judge: those of tonight, and those of earlier nights that tonight lacks."""
        asked = [name for name in self.rules.engines if not self._side_by_side or name != self.rules.baseline_engine]
        for engine in asked:
            for cell in self.rules.cells:
                earlier = () if self._side_by_side else self._earlier_nights(tonight, engine, cell).nights
                runs = [tonight.run_id, *(run.run_id for run in earlier)]
                for metric in self.rules.metrics:
                    if any(self._values(run, (engine, cell, metric)) for run in runs):
                        yield engine, cell, metric
                if any(self._quality(run, engine, cell) for run in runs):
                    yield engine, cell, ACCURACY

    @property
    def _side_by_side(self) -> bool:
        return self.rules.choice.mode == "run"

    def _judged(self, tonight: RunInfo, figure: Figure, figures: int) -> Finding:
        engine, cell, metric = figure
        now = _mean(self._values(tonight.run_id, figure))
        finding = Finding(engine, cell, metric, "not judged", tonight=now, unit=_unit(metric))
        if metric == ACCURACY:
            return self._judged_answers(tonight, finding, figures)
        if self._side_by_side:
            other = (self.rules.baseline_engine, cell, metric)
            decision = self._side_by_side_decision(tonight.run_id, figure, figures)
            before = _mean(self._values(tonight.run_id, other))
            if before is not None and now is None:
                return _missing(replace(finding, before=before))
            return _decided(replace(finding, baseline=f"{other[0]} tonight", before=before), decision, tonight.run_id)
        earlier = self._earlier_nights(tonight, engine, cell)
        if not earlier.nights:
            return replace(finding, evidence=earlier.why_none)
        past = figure_history(earlier, metric)
        with_figure = [place for place, joins in enumerate(past.joins) if joins and self._past(past, place, figure)]
        if not with_figure:
            return replace(finding, evidence="no earlier night that may serve as a baseline has this figure")
        baseline = with_figure[self._level()]
        level = [value for place in baseline for value in self._past(past, place, figure)]
        finding = replace(finding, baseline=_label(past, baseline), before=_mean(level))
        if now is None:
            return _missing(finding, standing=_was_missing(past))
        if past.open_since is not None:
            return self._still_open(tonight, finding, past, figures)
        decision = self._decision(past, figure, self._values(tonight.run_id, figure), figures)
        return _decided(finding, decision, self._since(tonight, past, figure, decision.recent))

    def _still_open(self, tonight: RunInfo, finding: Finding, past: FigureHistory, figures: int) -> Finding:
        """Judge a figure with a confirmed regression: it stays open until the last nights show the old level."""
        figure = (finding.engine, finding.cell, finding.metric)
        assert past.open_since is not None
        first = past.nights[past.open_since].run_id
        baseline = [self._past(past, place, figure) for place in range(past.open_since) if past.joins[place]]
        baseline = [rounds for rounds in baseline if rounds and min(rounds) > 0]
        now = self._values(tonight.run_id, figure)
        since = [self._past(past, place, figure) for place in range(past.open_since, len(past.nights))]
        since = [rounds for rounds in since if rounds and min(rounds) > 0]
        if not baseline or not since or min(now) <= 0:
            decision = self._decision(past, figure, now, figures)
            return replace(_decided(finding, decision, first), standing=decision.fails)
        rules = {"higher_is_better": higher_is_better(finding.metric), "threshold": self.rules.threshold}
        decision = still_regressed(baseline, [*since, now], figures=figures, **rules)  # type: ignore[arg-type]
        if not decision.fails:
            text = f"fixed: it was slower since {first}; {decision.evidence}"
            return replace(_decided(finding, decision, None), evidence=text)
        text = f"slower since {first}, neither fixed nor pinned; {decision.evidence}"
        return replace(_decided(finding, decision, first), evidence=text, standing=True)

    def _decision(self, past: FigureHistory, figure: Figure, now: list[float], figures: int) -> Decision:
        nights = [
            Night(tuple(self._past(past, place, figure)), joins)
            for place, joins in enumerate(past.joins)
            if past.counts[place]
        ]
        return decide(
            nights,
            now,
            higher_is_better=higher_is_better(figure[2]),
            threshold=self.rules.threshold,
            figures=figures,
            level=self._level(),
        )

    def _since(self, tonight: RunInfo, past: FigureHistory, figure: Figure, recent: int) -> str:
        """The first of the last nights (tonight included) on which a decision is based."""
        counted = [
            run.run_id
            for place, run in enumerate(past.nights)
            if past.counts[place] and (rounds := self._past(past, place, figure)) and min(rounds) > 0
        ]
        return [*counted, tonight.run_id][-recent]

    def _side_by_side_decision(self, run_id: str, figure: Figure, figures: int, *more: str) -> Decision:
        """The decision from the rounds of both engines tonight and in further runs."""
        other = (self.rules.baseline_engine, *figure[1:])
        runs = (run_id, *more)
        return decide_side_by_side(
            [value for run in runs for value in self._values(run, other)],
            [value for run in runs for value in self._values(run, figure)],
            higher_is_better=higher_is_better(figure[2]),
            threshold=self.rules.threshold,
            figures=figures,
        )

    def _level(self) -> slice:
        """The baseline nights whose level tonight is compared with, as a slice."""
        choice = self.rules.choice
        levels = {"last-good": slice(-1, None), "window": slice(-choice.nights, None), "pinned": slice(1)}
        return levels.get(choice.mode, ALL_NIGHTS)

    def _confirmed(self, tonight: RunInfo, second_id: str, first: Finding, findings: list[Finding]) -> Finding:
        figure = (first.engine, first.cell, first.metric)
        if first.metric == ACCURACY:
            again = self._judged_answers(
                self.history.get(second_id), replace(first, since=None), len(findings), tonight
            )
            holds = again.verdict == first.verdict
            evidence = f"{first.evidence}; second: {again.evidence}"
            verdict = first.verdict if holds else "unconfirmed"
            return replace(first, verdict=verdict, second=again.tonight, evidence=evidence)
        values = self._values(second_id, figure)
        if first.verdict == "missing":
            if not values:
                return replace(first, evidence=f"{first.evidence}; the second measurement lacks it too")
            return replace(first, verdict="unconfirmed", second=_mean(values))
        if not values:
            return replace(first, verdict="suspected", evidence=f"{first.evidence}; the second run lacks this figure")
        own = self._values(tonight.run_id, figure)
        if self._side_by_side:
            original, repeated, pooled = (
                self._side_by_side_decision(tonight.run_id, figure, len(findings)),
                self._side_by_side_decision(second_id, figure, len(findings)),
                self._side_by_side_decision(tonight.run_id, figure, len(findings), second_id),
            )
        else:
            past = figure_history(self._earlier_nights(tonight, first.engine, first.cell), first.metric)
            original, repeated, pooled = (
                self._decision(past, figure, rounds, len(findings)) for rounds in (own, values, [*own, *values])
            )
        if repeated.ratio == 0.0 and original.ratio == 0.0:
            return replace(first, second=0.0)
        holds = confirmed(original, repeated, pooled, self.rules.threshold)
        evidence = f"{first.evidence}; both measurements together {pooled.ratio or 0:.3f}"
        verdict = "regression" if holds else "unconfirmed"
        return replace(first, verdict=verdict, second=_mean(values), evidence=evidence)

    def _judged_answers(self, run: RunInfo, finding: Finding, figures: int, tonight: RunInfo | None = None) -> Finding:
        """Compare answers with the newest good night, by problem.

        `tonight` is given if `run` is its second measurement.
        """
        tonight = tonight or run
        now = self._quality(run.run_id, finding.engine, finding.cell)
        finding = replace(finding, tonight=now.accuracy if now else None)
        if self._side_by_side:
            before = self._quality(run.run_id, self.rules.baseline_engine, finding.cell)
            label: str | None = f"{self.rules.baseline_engine} tonight"
            opened, was_missing = None, False
        else:
            earlier = self._earlier_nights(tonight, finding.engine, finding.cell)
            if not earlier.nights:
                return replace(finding, evidence=earlier.why_none)
            past = figure_history(earlier, ACCURACY)
            graded = [
                (night, row)
                for night, joins in zip(past.nights, past.joins, strict=True)
                if joins and (row := self._quality(night.run_id, finding.engine, finding.cell)) is not None
            ]
            before, label = (graded[-1][1], graded[-1][0].run_id) if graded else (None, None)
            opened = past.nights[past.open_since].run_id if past.open_since is not None else None
            was_missing = _was_missing(past)
        if before is None or not before.n or before.correct is None:
            return replace(finding, evidence="no earlier night that may serve as a baseline has graded answers")
        finding = replace(finding, baseline=label, before=before.accuracy)
        if now is None or not now.n or now.correct is None:
            return _missing(finding, standing=was_missing)
        pairs = None
        if before.outcomes and now.outcomes and before.outcomes.keys() == now.outcomes.keys():
            pairs = [(was, now.outcomes[prompt]) for prompt, was in before.outcomes.items()]
        margin = self.rules.margins[finding.cell]
        counts = ((before.correct, before.n), (now.correct, now.n))
        decision = decide_answers(*counts, pairs, margin, figures=figures)
        if opened is not None and (decision.ratio or 0) * 100 < -margin / 2:
            finding = _decided(finding, replace(decision, verdict="regression"), opened)
            text = f"worse since {opened}, neither fixed nor pinned; {decision.evidence}"
            return replace(finding, evidence=text, standing=True)
        return _decided(finding, decision, tonight.run_id)

    def _note(self, verdict: NightVerdict, tonight: RunInfo, engine: str, cell: str) -> None:
        """Note (once) a broken series, and an engine whose build differs from its baseline's."""
        builds = {name: info.build or "unknown" for name, info in self.history.engines(tonight.run_id).items()}
        note = ""
        if self._side_by_side:
            other = self.rules.baseline_engine
            note = f"{other} is {builds.get(other)}, {engine} is {builds.get(engine, 'unknown')}"
        else:
            earlier = self._earlier_nights(tonight, engine, cell)
            if earlier.broken and (text := f"{engine}: {earlier.why_none}") not in verdict.breaks:
                verdict.breaks.append(text)
            if earlier.nights and engine in builds:
                newest = earlier.nights[-1].run_id
                was = self.history.engines(newest)[engine].build or "unknown"
                if was != builds[engine]:
                    note = f"{engine}: {was} -> {builds[engine]} (night before: {newest})"
        if note and note not in verdict.builds:
            verdict.builds.append(note)

    def _earlier_nights(self, tonight: RunInfo, engine: str, cell: str) -> Earlier:
        key = (tonight.run_id, engine, cell)
        if key not in self._earlier:
            self._earlier[key] = earlier_nights(self.history, self.rules.choice, tonight, engine, cell)
        return self._earlier[key]

    def _past(self, past: FigureHistory, place: int, figure: Figure) -> list[float]:
        return self._values(past.nights[place].run_id, figure)

    def _values(self, run_id: str, figure: Figure) -> list[float]:
        """A figure of each round; if only the whole run's figure is known, that figure."""
        if run_id not in self._rounds:
            by_round: dict[Figure, list[FigureRow]] = {}
            for row in self.history.figures(run_id):
                by_round.setdefault((row.engine, row.cell, row.metric), []).append(row)
            self._rounds[run_id] = {
                key: [r.value for r in rows if r.round] or [r.value for r in rows] for key, rows in by_round.items()
            }
        return self._rounds[run_id].get(figure, [])

    def _quality(self, run_id: str, engine: str, cell: str) -> QualityRow | None:
        rows = self.history.quality(run_id)
        return next((row for row in rows if row.engine == engine and row.cell == cell), None)


def _decided(finding: Finding, decision: Decision, since: str | None) -> Finding:
    return replace(
        finding,
        verdict=decision.verdict,
        ratio=decision.ratio,
        ci=decision.ci,
        limit=decision.limit,
        evidence=decision.evidence,
        since=since if decision.verdict in ("regression", "improved") else None,
    )


def _missing(finding: Finding, *, standing: bool = False) -> Finding:
    was = quantity(finding.before, finding.unit)
    evidence = f"not judged: tonight lacks this figure; it was {was}"
    return replace(finding, verdict="missing", evidence=evidence, standing=standing)


def _was_missing(past: FigureHistory) -> bool:
    return bool(past.verdicts) and (gate := past.verdicts[-1]) is not None and gate.verdict == "missing"


def _label(past: FigureHistory, places: list[int]) -> str:
    before = len(places) - 1
    more = f" and {before} before" if before else ""
    return f"{past.nights[places[-1]].run_id}{more}"


def _unit(metric: str) -> str:
    return "share" if metric == ACCURACY else unit_and_better(metric)[0]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
