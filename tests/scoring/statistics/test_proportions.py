"""Shares of right answers: intervals and tests against published or exact values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from scoring.statistics import proportions as s


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


@pytest.mark.parametrize(("won", "lost", "n", "d"), [(12, 2, 50, 0.1), (1, 4, 30, -0.2), (5, 5, 1319, 0.02)])
def test_p_values_and_intervals_of_a_table_agree(won: int, lost: int, n: int, d: float) -> None:
    # The interval of confidence 1 - p ends at d where the two-sided score test of d has the p-value p.
    table = s.PairedTable(won, lost, n)
    p = 2 * stats.norm.sf(abs(table.score(d)))
    ends = table.interval(1 - p).as_list()
    assert min(abs(end - d) for end in ends) < 1e-9


def test_a_difference_needs_the_exact_and_the_score_test() -> None:
    # 0 of 5: McNemar 0.0625 (2 / 2^5); the score test z = sqrt(5) has 0.0253.
    assert s.PairedTable(0, 5, 30).p_difference() == pytest.approx(0.0625)
    assert s.PairedTable(0, 0, 30).p_difference() == 1.0


def test_equivalence_of_a_table_is_two_one_sided_score_tests() -> None:
    table = s.PairedTable(20, 18, 1319)
    narrow = table.interval(0.90)
    # The 90% interval just fits a margin as wide as its farther end: there the larger p is 5%.
    assert table.p_equivalence(max(-narrow.low, narrow.high)) == pytest.approx(0.05, abs=1e-6)
    assert table.p_equivalence(0.02) < 0.05 < table.p_equivalence(0.003)


def test_without_a_discordant_pair_the_score_is_that_of_the_binomial_null() -> None:
    # q is 0 then: -n d over the root of n d (1 - d).
    assert s.PairedTable(0, 0, 30).score(0.01) == pytest.approx(-math.sqrt(30 * 0.01 / 0.99))
    assert s.PairedTable(0, 0, 30).score(0.0) == 0.0


@pytest.mark.parametrize(("won", "lost", "n", "share"), [(3, 2, 30, 6 / 32), (0, 0, 30, 1 / 32), (5, 0, 8, 6 / 10)])
def test_the_share_of_discordant_problems_is_never_zero(won: int, lost: int, n: int, share: float) -> None:
    assert s.discordance(won, lost, n) == pytest.approx(share)
