"""Intervals and tests against published or exact values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from scoring.statistics import intervals as s


def test_wilson_gives_the_textbook_interval() -> None:
    # Newcombe 1998, Stat. Med. 17:857, table I, method 3: 81 of 263 and 0 of 20.
    assert s.wilson(81, 263).as_list() == pytest.approx([0.2553, 0.3662], abs=5e-5)
    assert s.wilson(0, 20).as_list() == pytest.approx([0.0, 0.1611], abs=5e-5)
    assert s.wilson(1, 29).as_list() == pytest.approx([0.0061, 0.1718], abs=5e-5)


@pytest.mark.parametrize(("successes", "n"), [(-1, 10), (11, 10), (0, 0)])
def test_wilson_refuses_what_is_no_proportion(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="successes"):
        s.wilson(successes, n)


def test_mcnemar_is_the_exact_binomial_test_on_discordant_pairs() -> None:
    for b, c in [(0, 5), (3, 9), (7, 7), (1, 0)]:
        assert s.mcnemar_p(b, c) == pytest.approx(stats.binomtest(b, b + c).pvalue)
    assert s.mcnemar_p(0, 0) == 1.0


@pytest.mark.parametrize(("b", "c", "n"), [(12, 2, 50), (1, 4, 30), (0, 3, 40), (5, 5, 1319)])
def test_paired_difference_ends_where_the_restricted_score_test_rejects(b: int, c: int, n: int) -> None:
    # Tango's definition, with the restricted maximum found numerically instead of by his closed form.
    def score(d: float) -> float:
        def unlikely(q: float) -> float:
            p, rest = q + d, 1 - 2 * q - d
            terms = [(b, p), (c, q), (n - b - c, rest)]
            return -sum(k * math.log(max(x, 1e-300)) for k, x in terms if k)

        lowest, highest = max(0.0, -d), (1 - d) / 2
        q = optimize.minimize_scalar(unlikely, bounds=(lowest, highest), method="bounded", options={"xatol": 1e-12}).x
        return float((b - c - n * d) / math.sqrt(n * (2 * q + d - d * d)))

    ci = s.paired_difference(b, c, n)
    assert score(ci.low) == pytest.approx(1.959964, abs=1e-3)
    assert score(ci.high) == pytest.approx(-1.959964, abs=1e-3)


def test_paired_difference_without_a_discordant_pair_is_not_a_point() -> None:
    z2 = 1.959964**2
    assert s.paired_difference(0, 0, 30).as_list() == pytest.approx([-z2 / (30 + z2), z2 / (30 + z2)], abs=1e-6)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 40))
def test_paired_difference_holds_its_estimate_and_turns_with_its_sides(b: int, c: int, concordant: int) -> None:
    n = b + c + concordant
    if n == 0:
        return
    ci = s.paired_difference(b, c, n)
    assert -1 <= ci.low <= (b - c) / n <= ci.high <= 1
    turned = s.paired_difference(c, b, n)
    assert [turned.low, turned.high] == pytest.approx([-ci.high, -ci.low], abs=1e-9)
    narrow = s.paired_difference(b, c, n, 0.90)
    assert narrow.low >= ci.low - 1e-9
    assert narrow.high <= ci.high + 1e-9


def test_needed_n_and_settled_margin_are_each_others_reverse() -> None:
    n = s.needed_n(0.2, 0.05)
    assert s.settled_margin(0.2, n) == pytest.approx(0.05, rel=0.01)


def test_welch_ratio_is_scipys_welch_on_logarithms() -> None:
    a, b = [95.0, 97.0, 96.0, 99.0], [101.0, 104.0, 100.0]
    found = s.welch_ratio(a, b)
    expected = stats.ttest_ind(np.log(a), np.log(b), equal_var=False).confidence_interval(0.95)
    assert found.ci is not None
    assert found.ci.as_list() == pytest.approx([math.exp(expected.low), math.exp(expected.high)])
    assert found.value == pytest.approx(s.geometric_mean(a) / s.geometric_mean(b))


def test_welch_ratio_of_runs_without_spread_is_a_point() -> None:
    found = s.welch_ratio([2.0, 2.0], [1.0, 1.0])
    assert found.ci is not None
    assert found.ci.as_list() == pytest.approx([2.0, 2.0])


@pytest.mark.parametrize(("a", "b"), [([1.0], [1.0, 2.0]), ([0.0, 1.0], [1.0, 2.0])])
def test_welch_ratio_refuses_single_runs_and_zeros(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError, match="two runs"):
        s.welch_ratio(a, b)


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
