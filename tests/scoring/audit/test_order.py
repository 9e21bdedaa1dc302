"""Order and drift: what is left of the figures when the engines' means are taken away."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from scipy import stats

from scoring.audit.order import PLACE, TIME, order_row, trend

ORDER = [("a", 1), ("b", 1), ("b", 2), ("a", 2), ("a", 3), ("b", 3), ("b", 4), ("a", 4)]


def figures(time: float = 0.0, place: float = 0.0, noise: float = 0.01, seed: int = 1) -> dict[str, Any]:
    """Rounds of two engines, b 20% slower, that follow time or the place in the round by so much."""
    rng, seen = random.Random(seed), dict[int, int]()
    engines: dict[str, Any] = {"a": {"rounds": {}}, "b": {"rounds": {}}}
    for index, (engine, number) in enumerate(ORDER):
        at = seen[number] = seen.get(number, -1) + 1
        log = time * index + place * at + rng.gauss(0, noise) - (0.2 if engine == "b" else 0.0)
        engines[engine]["rounds"][str(number)] = 100 * math.exp(log)
    return engines


def row(engines: dict[str, Any], metric: str = "output_tok_s") -> dict[str, Any]:
    return {"cell": "single.perf-short", "metric": metric, "engines": engines}


@pytest.mark.parametrize("regressor", [TIME, PLACE])
def test_the_trend_is_the_least_squares_slope_beside_a_mean_for_each_engine(regressor: str) -> None:
    engines = figures(time=0.02)
    logs = np.array([math.log(engines[engine]["rounds"][str(number)]) for engine, number in ORDER])
    at = np.arange(8.0) if regressor == TIME else np.array([0.0, 1.0] * 4)
    is_a = np.array([engine == "a" for engine, _ in ORDER], dtype=float)
    design = np.column_stack([at, is_a, 1 - is_a])
    fit, rest, _, _ = np.linalg.lstsq(design, logs, rcond=None)
    error = math.sqrt(rest[0] / 5 * np.linalg.inv(design.T @ design)[0, 0])
    found = trend(engines, ORDER, regressor)
    assert found is not None
    assert found == pytest.approx((fit[0], 2 * stats.t.sf(abs(fit[0]) / error, 5)))


def test_a_drift_and_an_effect_of_the_order_warn() -> None:
    for engines, word in ((figures(time=0.03), "time"), (figures(place=0.1), "place in the round")):
        found = order_row([row(engines)], ORDER, ["a", "b"], ["output_tok_s"])
        assert found["status"] == "warn"
        assert f"output_tok_s of single.perf-short follows the {word}" in found["evidence"]


def test_noise_warns_in_at_most_five_percent_of_runs() -> None:
    names = ["m1", "m2", "m3"]
    warned = 0
    for seed in range(300):
        rows = [row(figures(noise=0.02, seed=10 * seed + i), name) for i, name in enumerate(names)]
        warned += order_row(rows, ORDER, ["a", "b"], names)["status"] == "warn"
    assert warned <= 24  # 5% of 300 is 15; more than 24 come once in a hundred times


def test_two_rounds_or_no_recorded_order_cannot_be_checked() -> None:
    few = figures()
    for figure in few.values():
        figure["rounds"] = dict(list(figure["rounds"].items())[:2])
    assert order_row([row(few)], ORDER, ["a", "b"], ["output_tok_s"])["status"] == "not_applicable"
    assert order_row([row(figures())], [], ["a", "b"], ["output_tok_s"])["status"] == "not_applicable"


def test_exploratory_figures_are_not_looked_at() -> None:
    assert order_row([row(figures(time=0.03))], ORDER, ["a", "b"], ["ttft_ms_p50"])["status"] == "not_applicable"


def exact(time: float) -> dict[str, Any]:
    return figures(time=time, noise=0.0)


def test_a_trend_without_noise_is_certain_and_no_trend_is_none() -> None:
    slope, p = trend(exact(0.02), ORDER, TIME) or (0.0, 1.0)
    assert [slope, p] == pytest.approx([0.02, 0.0])
    slope, p = trend(exact(0.0), ORDER, TIME) or (1.0, 0.0)
    assert [slope, p] == pytest.approx([0.0, 1.0], abs=1e-12)


def test_the_warning_names_slope_share_and_how_many_more() -> None:
    rows = [row(exact(0.02), name) for name in ("m1", "m2")]
    evidence = order_row(rows, ORDER, ["a", "b"], ["m1", "m2"])["evidence"]
    # exp(0.02) - 1 is 2.02%, of two figures; the place in the round follows from neither.
    assert evidence.startswith("m1 of single.perf-short follows the time: +2% from one engine start to the next (p = 0")
    assert "over 4 tests; 1 more)" in evidence
    alone = order_row(rows[:1], ORDER, ["a", "b"], ["m1"])["evidence"]
    assert "over 2 tests);" in alone
    placed = order_row([row(figures(place=0.1, noise=0.0))], ORDER, ["a", "b"], ["output_tok_s"])["evidence"]
    assert "follows the place in the round: +11% a round's half" in placed
    calm = order_row([row(figures(seed=2))], ORDER, ["a", "b"], ["output_tok_s"])
    assert (calm["status"], calm["evidence"][:7]) == ("pass", "neither")


def test_a_figure_of_zero_and_a_round_that_is_missing_are_left_out() -> None:
    engines = figures(time=0.02, noise=0.001)
    engines["a"]["rounds"]["4"] = 0.0
    engines["b"]["rounds"]["1"] = None
    logs = [
        (place, engine, math.log(engines[engine]["rounds"][str(number)]))
        for place, (engine, number) in enumerate(ORDER)
        if engines[engine]["rounds"][str(number)]
    ]
    design = np.array([[place, engine == "a", engine == "b"] for place, engine, _ in logs], dtype=float)
    fit = np.linalg.lstsq(design, np.array([log for *_, log in logs]), rcond=None)[0]
    found = trend(engines, ORDER, TIME)
    assert found is not None
    assert found[0] == pytest.approx(fit[0])
