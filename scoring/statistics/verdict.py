"""The verdict: different, equivalent or inconclusive, decided for all deciding figures of a report together.

A figure brings evidence: an interval, and the p-values of the two claims that can be made of it. "Different" rejects
that both engines are alike; "equivalent" rejects that they differ by the margin or more (two one-sided tests,
Schuirmann 1987). Each kind of claim is a family of its own: in at most 5% of reports is any difference wrong, and in at
most 5% any equivalence.
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
    """What one comparison shows of a difference (of logarithms for a ratio, of shares for answers)."""

    @property
    def estimate(self) -> float:
        """The difference, candidate - baseline; above 0 the candidate is the better one."""

    def interval(self, confidence: float) -> Interval | None:
        """Two-sided interval of the difference; None where none can be given."""

    def p_difference(self) -> float:
        """p-value of "there is no difference"."""

    def p_equivalence(self, margin: float) -> float:
        """p-value of "the difference is the margin or more, either way"."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The outcome of one comparison as a member of its family."""

    outcome: Outcome
    interval: Interval | None
    """The interval at the level at which the difference was judged: it excludes 0 where the outcome says so."""
    confidence: float
    p_adjusted: float
    """Of the difference, over the family."""
    equivalence_level: float
    """The level of each one-sided test of equivalence."""


def judge(family: Sequence[tuple[Evidence, float]], error: float = FAMILY_ERROR) -> list[Judgement]:
    """Judge all comparisons that decide a report, each with its margin of equivalence.

    Equivalence comes first: a difference that is shown, and lies inside the margin, makes no engine faster.
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
