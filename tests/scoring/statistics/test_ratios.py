"""Ratios of rounds against scipy, and the bootstrap's shortcuts against drawing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from scoring.statistics import ratios as s

A, B = [95.0, 97.0, 96.0, 99.0], [101.0, 104.0, 100.0]


@pytest.mark.parametrize("confidence", [0.90, 0.95, 0.995])
def test_welch_s_interval_is_scipy_s_on_logarithms(confidence: float) -> None:
    expected = stats.ttest_ind(np.log(A), np.log(B), equal_var=False).confidence_interval(confidence)
    found = s.welch(A, B)
    assert found.ratio_interval(confidence).as_list() == pytest.approx(
        [math.exp(expected.low), math.exp(expected.high)]
    )
    assert found.ratio == pytest.approx(s.geometric_mean(A) / s.geometric_mean(B))


def test_welch_s_p_values_are_scipy_s() -> None:
    a, b, margin = np.log(A), np.log(B), math.log(1.03)
    found = s.welch(A, B)
    assert found.p_difference() == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)
    # Two one-sided tests: the ratio is above 1 / 1.03, and below 1.03.
    above = stats.ttest_ind(a + margin, b, equal_var=False, alternative="greater").pvalue
    below = stats.ttest_ind(a - margin, b, equal_var=False, alternative="less").pvalue
    assert found.p_equivalence(margin) == pytest.approx(max(above, below))


def test_opposed_rounds_of_one_figure_are_judged_as_scipy_judges_pairs() -> None:
    up, down = [100.0, 104.0, 97.0, 103.0], [101.0, 95.0, 102.0, 98.0]
    a, b = np.log(up), np.log(down)
    paired = stats.ttest_rel(a, b)
    share = s.opposition([(up, down)])
    found = s.welch(up, down, opposition=share)
    assert share == pytest.approx(-2 * np.cov(a, b)[0, 1] / (a.var(ddof=1) + b.var(ddof=1)))
    assert found.error == pytest.approx((a.mean() - b.mean()) / paired.statistic)
    # Two sides that mirror each other hold no more than the pairs do.
    mirrored = s.welch(up, [1 / value for value in up], opposition=1.0)
    assert mirrored.df == pytest.approx(stats.ttest_rel(a, -a).df)
    assert mirrored.p_difference() == pytest.approx(stats.ttest_rel(a, -a).pvalue)
    assert s.welch(up, down).df > found.df > paired.df


def test_opposition_is_the_mean_over_figures_whatever_their_noise_and_never_narrows() -> None:
    up, down = [1.0, 1.1, 1.0, 1.1], [1.1, 1.0, 1.1, 1.0]
    assert s.opposition([(up, down)]) == pytest.approx(1.0)
    assert s.opposition([(up, down), (up, up), (up, [value**9 for value in down])]) == pytest.approx(
        (1 - 1 + 18 / 82) / 3
    )
    assert s.opposition([(up, up)]) == 0.0
    assert s.opposition([]) == s.opposition([([1.0], [2.0])]) == s.opposition([([1.0, 1.0], [2.0, 2.0])]) == 0.0


def test_rounds_without_spread_are_a_point() -> None:
    same, other = s.welch([2.0, 2.0], [2.0, 2.0]), s.welch([2.0, 2.0], [1.0, 1.0])
    assert other.ratio_interval().as_list() == pytest.approx([2.0, 2.0])
    assert (same.p_difference(), other.p_difference()) == (1.0, 0.0)
    assert (same.p_equivalence(0.03), other.p_equivalence(0.03), other.p_equivalence(math.log(2.0))) == (0.0, 1.0, 0.5)


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([0.0, 1.0], [1.0, 2.0]), ([1.0, 2.0], [1.0])])
def test_welch_refuses_single_rounds_and_zeros(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError, match="two rounds"):
        s.welch(a, b)


def test_the_interval_of_a_geometric_mean_is_student_s() -> None:
    logs = np.log(A)
    low, high = stats.t.interval(0.95, len(A) - 1, logs.mean(), stats.sem(logs))
    interval = s.geometric_interval(A)
    assert interval is not None
    assert interval.as_list() == pytest.approx([math.exp(low), math.exp(high)])
    assert s.geometric_interval([1.0]) is None
    assert s.geometric_interval([1.0, 0.0]) is None


@pytest.mark.parametrize("quantile", [0.5, 0.9, 0.99])
def test_the_rank_shortcut_has_the_bootstrap_s_distribution(quantile: float) -> None:
    values = np.random.default_rng(3).gamma(3.0, 10.0, 700)
    fast = s.bootstrap_quantile(values, quantile, np.random.default_rng(1))
    drawn = values[np.random.default_rng(2).integers(0, 700, (2000, 700))]
    slow = np.quantile(drawn, quantile, axis=1)
    for percent in (2.5, 50, 97.5):
        assert np.percentile(fast, percent) == pytest.approx(np.percentile(slow, percent), rel=0.03)


def test_bootstrap_of_a_ratio_keeps_numerator_and_denominator_together() -> None:
    busy = np.array([1.0, 2.0, 3.0, 4.0])
    draws = s.bootstrap_mean(busy * 7, np.random.default_rng(0), busy)
    assert draws == pytest.approx(np.full(s.BOOTSTRAP_DRAWS, 7.0))


def test_the_normal_shortcut_has_the_bootstrap_s_distribution() -> None:
    rng = np.random.default_rng(3)
    busy = rng.gamma(5.0, 10.0, 900)
    tokens = busy * rng.normal(2.0, 0.3, 900)
    fast = s.bootstrap_mean(tokens, np.random.default_rng(1), busy)
    chosen = np.random.default_rng(2).integers(0, 900, (2000, 900))
    slow = tokens[chosen].sum(axis=1) / busy[chosen].sum(axis=1)
    assert fast.mean() == pytest.approx(slow.mean(), rel=0.001)
    assert fast.std() == pytest.approx(slow.std(), rel=0.08)


class Recorder:
    """Stands for the random generator, and notes which distribution is drawn from."""

    def beta(self, a: float, b: float, size: int) -> s.Floats:
        self.drawn = (a, b, size)
        return np.full(size, a / (a + b))

    def normal(self, mean: float, sd: float, size: int) -> s.Floats:
        self.drawn = (mean, sd, size)
        return np.full(size, mean)


@pytest.mark.parametrize(("quantile", "rank"), [(0.5, 401), (0.9, 721), (0.99, 793), (1.0, 801), (0.0, 1)])
def test_the_rank_shortcut_draws_the_uniform_order_statistic(quantile: float, rank: int) -> None:
    # Rank k of n uniform values is Beta(k, n + 1 - k) (David and Nagaraja, Order Statistics, 2.1).
    rng, values = Recorder(), np.arange(801.0)[::-1].copy()
    draws = s.bootstrap_quantile(values, quantile, rng)  # type: ignore[arg-type]
    assert rng.drawn == (rank, 802 - rank, 2000)
    assert draws.tolist() == [int(801 * rank / 802)] * 2000


def test_the_normal_shortcut_draws_around_the_point_with_the_standard_error_of_its_residuals() -> None:
    rng = Recorder()
    values, weights = np.tile([2.0, 6.0], 300), np.tile([1.0, 3.0], 300)
    s.bootstrap_mean(values, rng)  # type: ignore[arg-type]
    assert rng.drawn == pytest.approx((4.0, 2.0 / math.sqrt(600), 2000))
    s.bootstrap_mean(values + np.tile([0.5, -0.5], 300), rng, weights)  # type: ignore[arg-type]
    # The ratio stays 2; the residuals are 0.5 and -0.5, the mean weight 2.
    assert rng.drawn == pytest.approx((2.0, 0.5 / (2 * math.sqrt(600)), 2000))


@pytest.mark.parametrize(("n", "drawn"), [(499, True), (500, False)])
def test_values_are_drawn_one_by_one_below_500(n: int, drawn: bool) -> None:
    rng = np.random.default_rng(1)
    values = np.arange(float(n))
    assert len(s.bootstrap_quantile(values, 0.5, rng)) == len(s.bootstrap_mean(values, rng)) == 2000
    # A mean of values drawn one by one is a multiple of 1 / n.
    multiples = s.bootstrap_mean(values, rng) * n
    assert bool(np.allclose(multiples, multiples.round(), rtol=0, atol=1e-6)) is drawn


def test_the_interval_of_draws_leaves_as_many_on_either_side() -> None:
    draws = np.arange(1001.0)
    assert s.percentile_interval(draws).as_list() == pytest.approx([25.0, 975.0])
    assert s.percentile_interval(draws, 0.8).as_list() == pytest.approx([100.0, 900.0])


def test_the_geometric_mean_of_one_value_is_that_value_to_the_last_digit() -> None:
    assert s.geometric_mean([0.1]) == 0.1
    assert s.geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
