"""Accuracy from k samples, against closed forms and against simulation."""

from __future__ import annotations

import math
import random
import statistics
from itertools import combinations

import pytest

from scoring.quality.sampling import Outcomes, mean_clustered, pass_at_k


def avg_at_k(outcomes: Outcomes) -> tuple[float, float | None]:
    """(mean, standard error) of the samples of each problem."""
    mean, error, _ = mean_clustered([sum(row) / len(row) for row in outcomes])
    return mean, error


def test_one_sample_a_problem_gives_the_plain_proportion_and_its_standard_error() -> None:
    mean, error = avg_at_k([[True]] * 6 + [[False]] * 24)
    assert mean == pytest.approx(0.2)
    assert error == pytest.approx(math.sqrt(0.2 * 0.8 / 29))


def test_samples_that_repeat_their_problem_add_no_certainty() -> None:
    _, once = avg_at_k([[True], [False], [True], [True]])
    _, often = avg_at_k([[True] * 64, [False] * 64, [True] * 64, [True] * 64])
    assert often == pytest.approx(once)


def test_the_clustered_standard_error_is_the_spread_of_the_mean_over_draws() -> None:
    r = random.Random(0)

    def draw() -> list[list[bool]]:
        chances = [r.choice((0.05, 0.5, 0.95)) for _ in range(40)]
        return [[r.random() < p for _ in range(4)] for p in chances]

    results = [avg_at_k(draw()) for _ in range(2000)]
    means = [mean for mean, _ in results]
    centre = sum(means) / len(means)
    spread = math.sqrt(sum((m - centre) ** 2 for m in means) / len(means))
    told = sum(error or 0.0 for _, error in results) / len(results)
    assert told == pytest.approx(spread, rel=0.06)


def test_one_problem_tells_nothing_of_its_standard_error() -> None:
    assert avg_at_k([[True, False]]) == (0.5, None)


@pytest.mark.parametrize(("n", "right", "k"), [(5, 2, 1), (5, 2, 3), (8, 1, 4), (8, 0, 4), (8, 8, 4), (6, 4, 3)])
def test_pass_at_k_is_the_share_of_all_choices_of_k_that_hold_a_right_one(n: int, right: int, k: int) -> None:
    row = [True] * right + [False] * (n - right)
    choices = list(combinations(row, k))
    assert pass_at_k([row], k) == pytest.approx(sum(map(any, choices)) / len(choices))


def test_pass_at_1_is_avg_at_k() -> None:
    outcomes = [[True, False, False], [True, True, True], [False, False, True]]
    assert pass_at_k(outcomes, 1) == pytest.approx(avg_at_k(outcomes)[0])


def test_many_samples_do_not_overflow() -> None:
    assert pass_at_k([[True] + [False] * 9999], 5000) == pytest.approx(0.5)


def test_what_cannot_be_told_is_refused() -> None:
    with pytest.raises(ValueError, match="avg@k"):
        avg_at_k([])
    with pytest.raises(ValueError, match="pass@3"):
        pass_at_k([[True, True]], 3)


def test_clustered_mean_counts_problems_not_samples() -> None:
    mean, error, ci = mean_clustered([0.0, 1.0, 0.5, 0.5])
    assert mean == 0.5
    assert error == pytest.approx(statistics.stdev([0, 1, 0.5, 0.5]) / 2)
    assert ci is not None
    assert ci.holds(0.5)
    assert mean_clustered([1.0]) == (1.0, None, None)
