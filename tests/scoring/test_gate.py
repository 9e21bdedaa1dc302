"""The nightly gate: what it catches, and how seldom it cries wolf (in full: benchmarks/statistics_power.py)."""

import random
from math import exp

import pytest

from scoring.statistics.gate import confirmed, decide, night_to_night_sd


def rounds(rng: random.Random, level: float, count: int = 5, noise: float = 0.02) -> list[float]:
    return [level * exp(rng.gauss(0, noise)) for _ in range(count)]


def share_failing(slower: float, nights: int, tries: int = 400, **night: float) -> float:
    rng = random.Random(5)
    failing = 0
    for _ in range(tries):
        baseline = [rounds(rng, 100) for _ in range(nights)]
        decision = decide(baseline, rounds(rng, 100 * (1 - slower)), higher_is_better=True, threshold=0.03)
        failing += decision.fails
    return failing / tries


@pytest.mark.parametrize("nights", [1, 7])
def test_a_5_percent_slowdown_is_found_and_noise_is_not(nights: int) -> None:
    assert share_failing(0.05, nights) >= 0.88
    assert share_failing(0.0, nights) <= 0.02


def test_a_certain_but_small_slowdown_is_no_regression() -> None:
    decision = decide([[100.0, 100.1, 99.9]], [98.0, 98.1, 97.9], higher_is_better=True, threshold=0.03)
    assert decision.verdict == "ok"
    assert decision.ci is not None and decision.ci[1] < 1


def test_a_large_but_uncertain_slowdown_is_no_regression() -> None:
    decision = decide([[100.0, 80.0, 120.0]], [90.0, 70.0, 110.0], higher_is_better=True, threshold=0.03)
    assert decision.verdict == "ok"


@pytest.mark.parametrize(("better", "verdict"), [(True, "improved"), (False, "regression")])
def test_the_direction_of_the_metric_decides_what_is_worse(better: bool, verdict: str) -> None:
    decision = decide([[10.0, 10.1, 9.9]], [12.0, 12.1, 11.9], higher_is_better=better, threshold=0.03)
    assert decision.verdict == verdict
    assert decision.ratio == pytest.approx(1.2 if better else 1 / 1.2, rel=0.01)


def test_a_noisy_history_raises_the_limit() -> None:
    quiet = decide([[100.0, 101.0, 99.0]], [94.0, 95.0, 93.0], higher_is_better=True, threshold=0.03)
    noisy = decide([[100.0, 101.0, 99.0]], [94.0, 95.0, 93.0], higher_is_better=True, threshold=0.03, aa_sd=0.04)
    assert (quiet.verdict, noisy.verdict) == ("regression", "ok")
    assert noisy.limit == pytest.approx(0.92)


def test_the_spread_between_nights_counts_although_each_night_is_steady() -> None:
    nights = [[level, level * 1.001, level * 0.999] for level in (100, 96, 104, 97, 103, 99)]
    decision = decide(nights, [95.0, 95.1, 94.9], higher_is_better=True, threshold=0.03)
    assert decision.verdict == "ok"
    assert "6 nights" in decision.evidence


def nights_apart(rng: random.Random, nights: int) -> list[list[float]]:
    """Nights of 3 rounds that differ by 2% from one another, and by 0.3% within."""
    return [rounds(rng, 100 * exp(rng.gauss(0, 0.02)), 3, 0.003) for _ in range(nights)]


@pytest.mark.parametrize("nights", [3, 4])
def test_rounds_of_a_few_nights_are_not_taken_for_independent(nights: int) -> None:
    rng = random.Random(7)
    tries = 1000
    drawn = [nights_apart(rng, nights + 1) for _ in range(tries)]
    failing = sum(decide(night[1:], night[0], higher_is_better=True, threshold=0.03).fails for night in drawn)
    assert failing / tries <= 0.035


@pytest.mark.parametrize("nights", [1, 2])
def test_too_few_nights_to_know_their_noise_are_said_to_be_blind_to_it(nights: int) -> None:
    rng = random.Random(7)
    rules = {"higher_is_better": True, "threshold": 0.03}
    base, (tonight,) = nights_apart(rng, nights), nights_apart(rng, 1)
    blind = f"blind to noise from night to night ({nights} night"
    assert blind in decide(base, tonight, **rules).evidence  # type: ignore[arg-type]
    assert "blind" not in decide(base, tonight, aa_sd=0.01, **rules).evidence  # type: ignore[arg-type]
    assert "blind" not in decide(base, tonight, interleaved=True, **rules).evidence  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("baseline", "tonight"), [([[100.0]], [50.0]), ([], [50.0]), ([[0.0, 1.0]], [1.0, 1.0]), ([[1.0, 1.0]], [])]
)
def test_what_says_nothing_of_its_noise_is_not_judged(baseline: list[list[float]], tonight: list[float]) -> None:
    assert decide(baseline, tonight, higher_is_better=True, threshold=0.03).verdict == "not judged"


def test_one_round_a_night_is_judged_by_the_noise_of_the_history() -> None:
    decision = decide([[100.0]], [90.0], higher_is_better=True, threshold=0.03, aa_sd=0.01)
    assert decision.verdict == "regression"


def test_the_noise_of_the_nights_survives_one_real_shift() -> None:
    steady = [[100.0 + i % 2] for i in range(12)]
    shifted = [[value * (0.8 if place > 5 else 1) for value in night] for place, night in enumerate(steady)]
    sd = night_to_night_sd(steady)
    assert sd is not None
    assert night_to_night_sd(shifted) == pytest.approx(sd, rel=0.2)
    assert night_to_night_sd(steady[:5]) is None


def test_one_wild_first_measurement_does_not_carry_the_pair() -> None:
    baseline = [[100.0, 101.0, 99.0, 100.5, 99.5]]
    wild, calm = [80.0, 81.0, 79.0, 80.5, 79.5], [100.0, 101.0, 99.0, 100.5, 99.5]
    rules = {"higher_is_better": True, "threshold": 0.03}
    first = decide(baseline, wild, **rules)  # type: ignore[arg-type]
    pooled = decide(baseline, wild + calm, **rules)  # type: ignore[arg-type]
    assert first.verdict == "regression"
    assert not confirmed(first, decide(baseline, calm, **rules), pooled)  # type: ignore[arg-type]
    again = decide(baseline, wild, **rules)  # type: ignore[arg-type]
    assert confirmed(first, again, decide(baseline, wild + wild, **rules))  # type: ignore[arg-type]
