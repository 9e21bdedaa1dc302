"""The nightly gate against values from tables and by hand (how often it is right: benchmarks/nightly_simulation.py).

Quantiles of Student's t are those of printed tables: with 12 degrees of freedom t(0.99) = 2.681, t(0.995) = 3.055,
t(0.9975) = 3.428, t(0.9995) = 4.318; with 8 degrees t(0.975) = 2.306, t(0.995) = 3.355.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import pytest
from scipy import stats

from scoring.statistics.gate import (
    Decision,
    Night,
    confirmed,
    decide,
    decide_side_by_side,
    night_noise,
    still_regressed,
)

RULES: dict[str, Any] = {"higher_is_better": True, "threshold": 0.03}

SD = sqrt((5 * 0.015**2 + 8 * 0.02**2) / 12)
"""Of eight nights that lie 2% above and below their mean: prior with the weight of 5 nights, 7 degrees of freedom."""


def night(level: float, *, joins: bool = True) -> Night:
    """A night of one round."""
    return Night((level,), joins)


def eight() -> list[Night]:
    """Eight nights of one round, alternately exp(-0.02) and exp(0.02) times 100."""
    return [night(100 * exp(-0.02 * (-1) ** place)) for place in range(8)]


def rounds(level: float, spread: float = 0.01) -> list[float]:
    """Five rounds whose logarithms are spread evenly: variance 2.5 spread^2."""
    return [level * exp(spread * place) for place in (-2, -1, 0, 1, 2)]


def test_the_noise_of_nights_is_moderated_by_the_prior() -> None:
    noise = night_noise([night.rounds for night in eight()])
    assert noise.sd == pytest.approx(SD)
    assert noise.df == 12
    # One night: the prior alone, 1.5% and the standard error of its five rounds.
    noise = night_noise([rounds(100, 0.02)])
    assert noise.sd == pytest.approx(sqrt(0.015**2 + 0.001 / 5))
    assert noise.df == 5


@pytest.mark.parametrize(("figures", "quantile"), [(1, 3.055), (10, 4.318)])
def test_one_night_is_held_against_a_prediction_interval_for_all_figures_together(
    figures: int, quantile: float
) -> None:
    half = quantile * SD * sqrt(1 + 1 / 8)
    inside, outside = exp(-half + 0.001), exp(-half - 0.001)
    decision = decide(eight(), [100 * inside], figures=figures, **RULES)
    assert decision.verdict == "ok"
    assert decision.evidence == "tonight against 8 nights; nights differ by 1.9% (sd)"
    assert decision.limit == pytest.approx(exp(-half), rel=1e-3)
    assert decision.ci == pytest.approx((inside * exp(-half), inside * exp(half)), rel=1e-3)
    assert decide(eight(), [100 * outside], figures=figures, **RULES).verdict == "regression"


@pytest.mark.parametrize(("recent", "cycle"), [(2, 1.05), (3, 1.05), (5, 1.05), (7, 1.0)])
def test_several_nights_show_what_one_cannot(recent: int, cycle: float) -> None:
    half = (2.681 if recent < 5 else 3.428) * SD * sqrt(1 / recent + 1 / 8) * cycle
    # From five nights on the last three alone lose too little to be certain.
    for mean, verdict in ((half + 0.001, "regression"), (half - 0.001, "ok")):
        last = [mean] * recent if recent <= 3 else [0.0305] * 3
        first = [(mean * recent - sum(last)) / max(1, recent - 3)] * (recent - len(last))
        earlier = [*eight(), *(night(100 * exp(-loss), joins=False) for loss in (first + last)[:-1])]
        decision = decide(earlier, [100 * exp(-last[-1])], **RULES)
        assert decision.verdict == verdict, mean
        if decision.fails:
            assert decision.recent == recent
            assert decision.ratio == pytest.approx(exp(-mean))
            assert decision.evidence.startswith(f"the last {recent} nights against 8 nights; ")


@pytest.mark.parametrize("recent", [10, 14])
def test_two_weeks_show_a_creeping_loss(recent: int) -> None:
    nights = [night(100 * exp(-0.02 * (-1) ** place)) for place in range(20)]
    # Twenty nights 2% off their mean and the prior of five: 24 degrees of freedom; error 1% times 0.15.
    sd = sqrt((5 * 0.015**2 + 20 * 0.02**2) / 24)
    half = stats.t.isf(0.01 * 0.15, 24) * sd * sqrt(1 / recent + 1 / 20)
    for mean, verdict in ((half + 0.0005, "regression"), (half - 0.0005, "ok")):
        # The last three lose just more than the threshold, the others the rest: no shorter window is certain of it.
        last = [(mean * recent - 3 * 0.0305) / (recent - 3)] * (recent - 3) + [0.0305] * 3
        earlier = [*nights, *(night(100 * exp(-loss), joins=False) for loss in last[:-1])]
        decision = decide(earlier, [100 * exp(-last[-1])], **RULES)
        assert decision.verdict == verdict
        if decision.fails:
            assert decision.recent == recent


def test_one_night_alone_is_named_as_the_baseline() -> None:
    assert decide([night(100)], [100.0], **RULES).evidence == "tonight against 1 night; nights differ by 1.5% (sd)"


@pytest.mark.parametrize(
    ("last", "verdict"),
    [((0.035, 0.035, 0.035), "regression"), ((0.035, 0.027, 0.027), "ok"), ((0.06, 0.06, 0.01), "ok")],
)
def test_a_certain_but_small_loss_or_one_that_is_over_is_no_regression(last: tuple[float, ...], verdict: str) -> None:
    steady = [night(100 * exp(0.001 * (-1) ** place)) for place in range(40)]
    *before, tonight = last
    earlier = [*steady, *(night(100 * exp(-loss), joins=False) for loss in before)]
    assert decide(earlier, [100 * exp(-tonight)], **RULES).verdict == verdict


def test_the_direction_of_the_metric_decides_what_is_worse() -> None:
    for better, verdict in ((True, "improved"), (False, "regression")):
        decision = decide(eight(), [120.0], higher_is_better=better, threshold=0.03)
        assert decision.verdict == verdict
        assert decision.ratio == pytest.approx(1.2 if better else 1 / 1.2)


def test_nights_that_do_not_join_set_no_level_and_no_noise() -> None:
    slow = [night(80, joins=False)] * 9
    decision = decide([*eight(), *slow], [100.0], **RULES)
    assert decision.verdict == "ok"
    assert decision.ratio == pytest.approx(1.0)
    assert "8 nights" in decision.evidence


def test_the_level_may_be_set_by_some_nights_and_the_noise_by_all() -> None:
    decision = decide(eight(), [100.0], level=slice(-1, None), **RULES)
    assert decision.ratio == pytest.approx(exp(-0.02))
    assert decision.limit == pytest.approx(exp(-3.055 * SD * sqrt(2)), rel=1e-3)


def test_a_series_of_six_nights_is_too_young_and_still_sees_a_collapse() -> None:
    decision = decide(eight()[:6], [100.0], **RULES)
    assert decision.verdict == "too young"
    assert decision.limit is not None and 0.89 < decision.limit < 0.95
    assert decide(eight()[:7], [100.0], **RULES).verdict == "ok"
    assert decide(eight()[:1], [33.0], figures=30, **RULES).verdict == "regression"


@pytest.mark.parametrize(
    ("earlier", "tonight", "verdict"),
    [
        ([], [50.0], "not judged"),
        ([Night((0.0, 0.0))], [50.0], "not judged"),
        ([Night((2.8, 2.9))], [], "not judged"),
        ([Night((2.8, 2.9))], [0.0, 0.0], "regression"),
        ([Night((2.8, 2.9))], [2.8, 0.0], "not judged"),
    ],
)
def test_a_fall_to_zero_is_a_regression_and_the_unknown_is_not_judged(
    earlier: list[Night], tonight: list[float], verdict: str
) -> None:
    decision = decide(earlier, tonight, **RULES)
    assert decision.verdict == verdict
    assert decision.ratio == (0.0 if verdict == "regression" else None)
    if tonight == [0.0, 0.0]:
        assert decide(earlier, tonight, higher_is_better=False, threshold=0.03).verdict == "not judged"


@pytest.mark.parametrize("nights", [1, 2])
def test_a_regression_is_fixed_once_the_old_level_is_100_000_times_likelier(nights: int) -> None:
    baseline = [each.rounds for each in eight()]
    for odds, verdict in ((100_000.5, "ok"), (99_999.5, "regression")):
        # log odds of n nights on the old level: n * loss^2 / (2 sd^2)
        # The level of the four slow nights counts less its standard error.
        loss = sqrt(2 * SD**2 * log(odds) / nights) + SD / sqrt(4)
        slow = [(100 * exp(-loss),)] * 4
        decision = still_regressed(baseline, [*slow, *[(100.0,)] * nights], **RULES)
        assert decision.verdict == verdict
        assert decision.recent == (nights if verdict == "ok" else 4 + nights)


def test_nights_half_way_back_from_a_wild_first_night_do_not_end_a_regression() -> None:
    baseline = [each.rounds for each in eight()]
    # 5% slower, and the first night 9% by chance: the 2.7% of the next three are nearer to 0 than to that.
    nights = [(100 * exp(-loss),) for loss in (0.09, 0.026, 0.027, 0.028)]
    assert still_regressed(baseline, nights, **RULES).fails
    assert not still_regressed(baseline, [nights[0], *[(99.0,)] * 3], **RULES).fails


def test_an_open_regression_of_a_latency_is_mended_by_smaller_values() -> None:
    latency = RULES | {"higher_is_better": False}
    baseline, slow = [each.rounds for each in eight()], [(115.0,)] * 4
    assert still_regressed(baseline, [*slow, (115.0,)], **latency).fails
    mended = still_regressed(baseline, [*slow, (100.0,)], **latency)
    assert mended.verdict == "ok"
    assert mended.ratio == pytest.approx(1.0)
    assert still_regressed(baseline, [*slow, (115.0,)], **latency).ratio == pytest.approx(1 / 1.15)


def test_one_lucky_night_does_not_mend_a_regression() -> None:
    baseline = [each.rounds for each in eight()]
    slow = [(95.0,)] * 4
    assert still_regressed(baseline, [*slow, (98.0,)], **RULES).fails
    assert still_regressed(baseline, [*slow, *[(97.0,)] * 7], **RULES).fails, "lost 3% of the 5% still"


@pytest.mark.parametrize(("figures", "quantile"), [(1, 2.306), (5, 3.355)])
def test_two_engines_of_one_night_are_compared_by_welch(figures: int, quantile: float) -> None:
    half = quantile * 0.01 * sqrt(2.5 * 2 / 5)
    for loss, verdict in ((half + 0.001, "regression"), (half - 0.001, "ok")):
        decision = decide_side_by_side(
            rounds(100), rounds(100 * exp(-loss)), figures=figures, **(RULES | {"threshold": 0.01})
        )
        assert decision.verdict == verdict
        assert decision.ci == pytest.approx((exp(-loss - half), exp(-loss + half)), rel=1e-3)
    assert decide_side_by_side(rounds(100)[:2], rounds(50), **RULES).verdict == "not judged"
    assert decide_side_by_side(rounds(100), [0.0] * 5, **RULES).verdict == "not judged"
    assert decide_side_by_side([100.0] * 5, [96.0] * 5, **RULES).verdict == "regression"


def test_one_wild_first_measurement_does_not_carry_the_pair() -> None:
    fails = Decision("regression", 0.9, None, None, "")
    calm, half = Decision("ok", 0.99, None, None, ""), Decision("ok", 0.984, None, None, "")
    assert not confirmed(fails, calm, fails, 0.03)
    assert confirmed(fails, half, fails, 0.03)
    assert not confirmed(fails, half, calm, 0.03)
    assert not confirmed(fails, Decision("not judged", None, None, None, ""), fails, 0.03)
