"""Several samples a problem: a handful of problems that differ is no spread to build an interval on."""

from __future__ import annotations

from collections.abc import Sequence

from records import JsonObject
from scoring.quality.accuracy import engine_summary, paired_summary
from scoring.quality.grading import Outcome, Outcomes
from scoring.quality.verdicts import judge_answers
from scoring.statistics.proportions import wilson


def outcomes(rows: Sequence[Sequence[bool]]) -> Outcomes:
    return {
        (f"p{problem}", sample): Outcome(right, right, "1", "boxed", False, "stop", None, "", "")
        for problem, row in enumerate(rows)
        for sample, right in enumerate(row)
    }


def judged(baseline: Outcomes, candidate: Outcomes, margin: float) -> JsonObject:
    pair = paired_summary(baseline, candidate, margin)
    assert pair is not None
    judge_answers([pair])
    return pair[0]


RIGHT, ONE_OF_EIGHT_WRONG = [True] * 8, [False] + [True] * 7


def test_one_sample_that_flips_proves_no_more_than_none_that_does() -> None:
    base = outcomes([RIGHT] * 30)
    none = judged(base, base, 0.02)
    one = judged(base, outcomes([ONE_OF_EIGHT_WRONG] + [RIGHT] * 29), 0.02)
    assert (none["verdict"], one["verdict"]) == ("inconclusive", "inconclusive")
    assert one["needed_n"] >= none["needed_n"] > 30


def test_five_problems_that_differ_are_no_difference_as_in_the_exact_test() -> None:
    base = outcomes([RIGHT] * 30)
    for wrong, word in ((5, "inconclusive"), (8, "worse")):
        pair = judged(base, outcomes([ONE_OF_EIGHT_WRONG] * wrong + [RIGHT] * (30 - wrong)), 0.001)
        assert pair["verdict"] == word


def test_accuracy_of_nearly_all_right_is_as_unsure_as_of_all_right() -> None:
    all_right, nearly = (engine_summary(outcomes([first] + [RIGHT] * 29)) for first in (RIGHT, ONE_OF_EIGHT_WRONG))
    assert all_right["ci"] == wilson(30, 30).as_list()
    assert nearly["ci"] == wilson(30 - 1 / 8, 30).as_list()
