"""Verdicts of a whole family of comparisons."""

from __future__ import annotations

import math

import pytest

from scoring.statistics.intervals import StudentEstimate
from scoring.statistics.joint_verdict import Judgement, judge

MARGIN = math.log(1.03)


def alone(estimate: float, error: float, df: float = 4) -> Judgement:
    return judge([(StudentEstimate(estimate, error, df), MARGIN)])[0]


@pytest.mark.parametrize(
    ("estimate", "error", "outcome"),
    [
        (0.10, 0.03, "above"),  # t = 3.33 > 2.776
        (-0.10, 0.03, "below"),
        (0.10, 0.04, "inconclusive"),  # t = 2.5
        (0.0, 0.0138, "equivalent"),  # 0.02956 / 0.0138 = 2.142 > 2.132, the one-sided 5% point
        (0.0, 0.0140, "inconclusive"),  # 2.111
        (0.02, 0.004, "equivalent"),  # 0.00956 / 0.004 = 2.39; t = 5 shows a difference, inside the margin
    ],
)
def test_one_comparison_alone_is_judged_at_five_percent(estimate: float, error: float, outcome: str) -> None:
    assert alone(estimate, error).outcome == outcome


def test_the_interval_excludes_no_difference_where_the_outcome_does() -> None:
    # Student's t with 4 degrees of freedom, two-sided 5%: 2.776445.
    judgement = alone(0.10, 0.03)
    assert judgement.interval is not None
    assert judgement.interval.as_list() == pytest.approx([0.10 - 2.776445 * 0.03, 0.10 + 2.776445 * 0.03])
    assert judgement.confidence == pytest.approx(0.95)


def test_the_same_evidence_decides_less_beside_more_comparisons() -> None:
    clear, nothing = StudentEstimate(0.10, 0.03, 4), StudentEstimate(0.0, 0.03, 4)
    judgements = judge([(clear, MARGIN), *[(nothing, MARGIN)] * 8])
    assert {judgement.outcome for judgement in judgements} == {"inconclusive"}
    # p = 0.02899 (t = 3.3333, df 4), of nine.
    assert judgements[0].p_adjusted == pytest.approx(9 * 0.028994, rel=1e-3)
    assert judgements[0].confidence == pytest.approx(1 - 0.05 / 9)


def test_what_is_decided_leaves_its_share_to_the_others() -> None:
    certain, clear = StudentEstimate(1.0, 0.01, 4), StudentEstimate(0.10, 0.03, 4)
    assert [j.outcome for j in judge([(certain, MARGIN)] * 8 + [(clear, MARGIN)])] == ["above"] * 9


def test_differences_and_equivalences_are_families_of_their_own() -> None:
    far, equal = StudentEstimate(1.0, 0.01, 4), StudentEstimate(0.0, 0.0138, 4)
    judgements = judge([(far, MARGIN), (equal, MARGIN)])
    # Beside one that cannot be equivalent, equivalence is judged at 2.5%: t 2.776, and 2.142 falls short.
    assert [j.outcome for j in judgements] == ["above", "inconclusive"]
    assert judgements[1].equivalence_level == pytest.approx(0.025)
    assert judgements[1].confidence == pytest.approx(0.95)


def test_nothing_to_judge_is_no_family() -> None:
    assert judge([]) == []
