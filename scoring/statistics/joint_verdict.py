"""Decides all deciding figures of a report together: different, equivalent or inconclusive.

The evidence of a figure is an interval and the p-values of two claims. "Different" rejects that both engines are equal;
"equivalent" rejects that they differ by the margin or more (two one-sided tests, Schuirmann 1987). Each kind of claim
is a separate family: at most 5% of reports have a wrong difference, and at most 5% a wrong equivalence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from scoring.statistics.family import FAMILY_ERROR, holm
from scoring.statistics.intervals import Interval

FASTER, SLOWER, EQUIVALENT, INCONCLUSIVE = "faster", "slower", "equivalent", "inconclusive"
BETTER, WORSE = "better", "worse"

Outcome = Literal["above", "below", "equivalent", "inconclusive"]


class Evidence(Protocol):
    """The evidence of one comparison for a difference (of logarithms for a ratio, of shares for answers)."""

    @property
    def estimate(self) -> float:
        """The difference, candidate - baseline; above 0 the candidate is better."""

    def interval(self, confidence: float) -> Interval | None:
        """Two-sided interval of the difference; None where there is none."""

    def p_difference(self) -> float:
        """p-value of "there is no difference"."""

    def p_equivalence(self, margin: float) -> float:
        """p-value of "the difference is the margin or more, either way"."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of one comparison as a member of its family."""

    outcome: Outcome
    interval: Interval | None
    """The interval at the level at which the difference was judged: it excludes 0 if the outcome is a difference."""
    confidence: float
    p_adjusted: float
    """p-value of the difference, adjusted for the family."""
    equivalence_level: float
    """The level of each one-sided test of equivalence."""


def judge(family: Sequence[tuple[Evidence, float]], error: float = FAMILY_ERROR) -> list[Judgement]:
    """Judge all comparisons that decide a report, each with its margin of equivalence.

    Equivalence comes first: a proven difference inside the margin does not make an engine faster.
    """
    differences = holm([evidence.p_difference() for evidence, _ in family], error)
    equivalences = holm([evidence.p_equivalence(margin) for evidence, margin in family], error)
    judgements = []
    for (evidence, _), difference, equivalence in zip(family, differences, equivalences, strict=True):
        outcome: Outcome = "inconclusive"
        if equivalence.rejected:
            outcome = "equivalent"
        elif difference.rejected:
            outcome = "above" if evidence.estimate > 0 else "below"
        confidence = 1 - difference.level
        judgements.append(
            Judgement(outcome, evidence.interval(confidence), confidence, difference.p_adjusted, equivalence.level)
        )
    return judgements
