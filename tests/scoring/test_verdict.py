"""Verdicts in words: three outcomes, each with its figures."""

import pytest

from scoring.metrics import WITHIN_RUN
from scoring.statistics import verdict
from scoring.statistics.intervals import Interval, Ratio


def speed(low: float, value: float, high: float, method: str = "welch") -> verdict.Words:
    return verdict.speed(Ratio(value, Interval(low, high), method), 0.03)


def test_a_clear_slowdown_reads_as_the_specification_has_it() -> None:
    assert speed(0.59, 0.60, 0.61).text == "0.60x [0.59, 0.61], slower"


@pytest.mark.parametrize(
    ("low", "value", "high", "word"),
    [
        (1.10, 1.20, 1.30, "faster"),
        (0.95, 0.97, 0.99, "slower"),
        (0.99, 1.00, 1.01, "equivalent"),
        (0.98, 0.985, 0.99, "equivalent"),
        (0.90, 1.00, 1.10, "inconclusive"),
        (0.99, 1.02, 1.05, "inconclusive"),
    ],
)
def test_speed_has_three_outcomes(low: float, value: float, high: float, word: str) -> None:
    assert speed(low, value, high).word == word


def test_one_run_has_to_clear_the_margin_before_it_is_called_different() -> None:
    assert speed(0.95, 0.97, 0.99, WITHIN_RUN).word == "inconclusive"
    assert speed(0.90, 0.92, 0.94, WITHIN_RUN).word == "slower"
    assert "blind to run noise" in speed(0.90, 0.92, 0.94, WITHIN_RUN).text


def test_a_ratio_without_an_interval_is_inconclusive() -> None:
    assert verdict.speed(Ratio(0.5, None, "no interval"), 0.03).word == "inconclusive"


def test_ends_that_two_digits_cannot_tell_from_one_get_three() -> None:
    assert speed(0.991, 0.994, 0.997).text.startswith("0.994x [0.991, 0.997]")


def test_thirty_problems_cannot_settle_two_points_and_the_needed_n_is_told() -> None:
    found = verdict.paired(2, 4, 4, 20, 0.02)
    assert found.words.word == "inconclusive"
    # 9 / 32 discordant: (1.645 + 1.282) * sqrt(9 / 32 / 30) = 0.283.
    assert found.words.text == "inconclusive: 30 problems can't settle less than 28 points; 2 points needs n = 6,022"


def test_full_gsm8k_with_few_flips_is_equivalent_within_two_points() -> None:
    found = verdict.paired(1180, 20, 18, 101, 0.02)
    assert found.words.text == "equivalent within 2 points"
    assert found.ci_equivalence.within(-0.02, 0.02)


def test_many_lost_problems_are_worse() -> None:
    found = verdict.paired(1000, 20, 120, 179, 0.02)
    assert found.words.word == "worse"
    assert found.words.text.startswith("-7.6 points [")


def test_a_difference_inside_the_margin_is_equivalent_and_said_to_be_there() -> None:
    found = verdict.paired(1280, 0, 12, 27, 0.02)
    assert found.words.word == "equivalent"
    assert "a difference of -0.91 points is shown" in found.words.text


def test_five_lost_of_thirty_is_not_enough_for_the_exact_test() -> None:
    # The score interval excludes 0 here, the exact test does not agree: no difference is claimed.
    found = verdict.paired(5, 0, 5, 20, 0.02)
    assert found.mcnemar_p == pytest.approx(0.0625)
    assert not found.ci.holds(0)
    assert found.words.word == "inconclusive"


def test_no_problem_is_no_table() -> None:
    with pytest.raises(ValueError, match="discordant problems of 0"):
        verdict.paired(0, 0, 0, 0, 0.02)


def test_clustered_samples_have_the_same_three_outcomes() -> None:
    assert verdict.clustered(0.0, Interval(-0.02, 0.02), Interval(-0.015, 0.015), 0.02, 500).word == "equivalent"
    assert verdict.clustered(-0.1, Interval(-0.15, -0.05), Interval(-0.14, -0.06), 0.02, 30).word == "worse"
    assert verdict.clustered(0.0, Interval(-0.1, 0.1), Interval(-0.08, 0.08), 0.02, 30).text == (
        "inconclusive: 30 problems leave 10 points either way; 2 points needs n = 480"
    )
    assert verdict.clustered(0.0, None, None, 0.02, 1).word == "inconclusive"
