"""Formulas of the judging modules against sums that stand here in full."""

from __future__ import annotations

import math

import pytest

from scoring.statistics.answers_gate import decide_answers
from scoring.statistics.gate import PRIOR_NIGHT_SD, PRIOR_NIGHTS, night_noise
from scoring.statistics.ratios import grid_blur


def fisher_p(a: int, b: int, c: int, d: int) -> float:
    """Fisher's exact p of [[a, b], [c, d]]: all tables with these margins that are no likelier than this one."""
    rows, column, n = a + b, a + c, a + b + c + d

    def likelihood(x: int) -> int:
        return math.comb(rows, x) * math.comb(n - rows, column - x)

    least = max(0, column - (n - rows))
    tables = [likelihood(x) for x in range(least, min(rows, column) + 1)]
    return sum(one for one in tables if one <= likelihood(a)) / math.comb(n, column)


@pytest.mark.parametrize(
    ("baseline", "tonight", "verdict"),
    [
        ((40, 50), (22, 50), "regression"),
        ((22, 50), (40, 50), "improved"),
        ((0, 50), (12, 50), "improved"),
        ((12, 50), (0, 50), "regression"),
        ((40, 50), (30, 50), "ok"),
        ((0, 50), (0, 50), "ok"),
    ],
)
def test_unpaired_answers_are_judged_by_fishers_exact_test(
    baseline: tuple[int, int], tonight: tuple[int, int], verdict: str
) -> None:
    p = fisher_p(baseline[0], baseline[1] - baseline[0], tonight[0], tonight[1] - tonight[0])
    decision = decide_answers(baseline, tonight, None, 2.0)
    assert (decision.verdict, p < 0.01) == (verdict, verdict != "ok")
    assert decision.evidence.endswith(f"Fisher p = {p:.3g}")
    assert decision.ratio == pytest.approx(tonight[0] / tonight[1] - baseline[0] / baseline[1])
    assert decision.limit == -0.02


def test_no_problem_asked_is_not_judged() -> None:
    assert decide_answers((0, 0), (5, 9), None, 2.0).verdict == "not judged"
    assert decide_answers((5, 9), (0, 0), None, 2.0).verdict == "not judged"


def test_a_night_that_judges_no_other_figure_has_the_whole_error() -> None:
    assert decide_answers((40, 50), (22, 50), None, 2.0, figures=0).verdict == "regression"


def test_the_noise_of_nights_is_that_of_the_prior_and_of_their_spread() -> None:
    # Three nights of two rounds: their means are 4.60517 and 1% above and below it, each round is 0.5% off its mean.
    nights = [[100 * math.exp(mean - 0.005), 100 * math.exp(mean + 0.005)] for mean in (-0.01, 0.0, 0.01)]
    noise = night_noise(nights)
    # Squares within: 3 x 2 x 0.005^2 over 6 - 3 degrees of freedom; a night's mean rests on 2 rounds.
    within = 6 * 0.005**2 / 3
    prior = PRIOR_NIGHT_SD**2 + within / 2
    assert noise.df == PRIOR_NIGHTS + 2
    assert noise.sd == pytest.approx(math.sqrt((PRIOR_NIGHTS * prior + 2 * 0.01**2) / (PRIOR_NIGHTS + 2)))


@pytest.mark.parametrize(
    ("numerator", "denominator", "variance"),
    [(0.3, 0.1, 0.1 / 6 + 0.01), (0.2, 0.2, 0.08 / 6), (None, 0.2, 0.04 / 6 + 0.01), (None, None, 0.0)],
)
def test_coarse_levels_blur_a_ratio_by_twice_the_variance_of_their_brackets(
    numerator: float | None, denominator: float | None, variance: float
) -> None:
    assert grid_blur(numerator, denominator) == pytest.approx(variance)
