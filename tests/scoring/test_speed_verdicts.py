"""Verdicts on speed ratios, from rows as scoring makes them, against Welch's test and Holm's steps of scipy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from scoring.metrics import WITHIN_RUN
from scoring.speed.verdicts import judge_speed, known_rounds

DECIDING = ("output_tok_s", "ttft_ms_p50", "tpot_ms_p50")
UP, DOWN = [100.0, 102.0, 101.0, 99.0], [80.0, 81.0, 79.0, 80.5]


def row(metric: str, base: list[float | None], cand: list[float | None], **ratio: Any) -> dict[str, Any]:
    """A row of two engines; the rounds count from 1."""
    engines = {
        name: {"rounds": {str(n): value for n, value in enumerate(values, 1)}}
        for name, values in (("base", base), ("cand", cand))
    }
    told = {"value": 1.0, "ci": [0.9, 1.1], "method": "welch", "rounds": [len(cand), len(base)], "text": ""} | ratio
    return {"cell": "c", "metric": metric, "engines": engines, "speed_ratio": {"cand": told}}


def judged(*rows: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    judge_speed(rows, "base", 0.03, DECIDING, **options)
    return [each["speed_ratio"]["cand"] for each in rows]


def p_value(better: list[float], other: list[float]) -> float:
    return float(stats.ttest_ind(np.log(better), np.log(other), equal_var=False).pvalue)


@pytest.mark.parametrize(
    ("metric", "base", "cand", "verdict"),
    [
        ("output_tok_s", DOWN, UP, "faster"),
        ("output_tok_s", UP, DOWN, "slower"),
        ("ttft_ms_p50", DOWN, UP, "slower"),
        ("ttft_ms_p50", UP, DOWN, "faster"),
    ],
)
def test_a_larger_rate_and_a_smaller_latency_are_faster(
    metric: str, base: list[float], cand: list[float], verdict: str
) -> None:
    [ratio] = judged(row(metric, [*base], [*cand]))
    assert ratio["verdict"] == verdict
    assert ratio["p_adjusted"] == pytest.approx(p_value(UP, DOWN))
    assert (ratio["ci_adjusted"][0] > 1) is (verdict == "faster")
    assert (ratio["deciding"], ratio["no_verdict"], ratio["needed_rounds"]) == (True, None, None)


def test_the_adjusted_interval_and_p_value_follow_holm() -> None:
    # The candidate's rounds follow the baseline's, so that nothing is widened.
    near = [v * 1.01 for v in UP]
    clear, open_ = judged(row("output_tok_s", [*DOWN], [*UP]), row("ttft_ms_p50", [*near], [*UP]))
    first, second = p_value(UP, DOWN), p_value(near, UP)
    assert clear["p_adjusted"] == pytest.approx(2 * first)
    assert open_["p_adjusted"] == pytest.approx(second)
    for ratio, sides, level in ((clear, (UP, DOWN), 0.025), (open_, (near, UP), 0.05)):
        a, b = map(np.log, sides)
        interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval(1 - level)
        assert ratio["ci_adjusted"] == pytest.approx([math.exp(interval.low), math.exp(interval.high)])
    assert clear["verdict"] == "faster"
    assert open_["verdict"] == "inconclusive"
    assert open_["text"].endswith(", inconclusive: more rounds would narrow it")
    assert open_["needed_rounds"] is not None and open_["needed_rounds"] > 4


def test_equal_engines_with_little_noise_are_equivalent_within_the_margin() -> None:
    quiet = [100.0, 100.2, 99.9, 100.1]
    [ratio] = judged(row("output_tok_s", [*quiet], [v * 1.001 for v in quiet]))
    assert ratio["verdict"] == "equivalent"
    assert ratio["text"].endswith("equivalent within 3%")
    assert ratio["needed_rounds"] is None
    [ratio] = judged(row("output_tok_s", [*quiet], [v * 1.035 for v in quiet]))
    assert ratio["verdict"] == "faster"


def test_less_energy_is_better_and_no_speed() -> None:
    rows = [row("joules_per_token", [*UP], [*DOWN])]
    judge_speed(rows, "base", 0.03, ("joules_per_token",))
    assert rows[0]["speed_ratio"]["cand"]["verdict"] == "better"
    rows = [row("joules_per_token", [*DOWN], [*UP])]
    judge_speed(rows, "base", 0.03, ("joules_per_token",))
    assert rows[0]["speed_ratio"]["cand"]["verdict"] == "worse"


@pytest.mark.parametrize(
    ("given", "why", "text"),
    [
        (row("e2e_ms_p50", [*UP], [*DOWN]), "exploratory", "1.00x [0.90, 1.10]"),
        (
            row("output_tok_s", [*UP[:2]], [*DOWN[:2]]),
            "fewer than 3 rounds",
            "1.00x [0.90, 1.10], no verdict: fewer than 3 rounds",
        ),
        (row("output_tok_s", [*UP], [*DOWN], ci=None), "no interval", "1.00x, no verdict: no interval"),
        (row("output_tok_s", [*UP], [*DOWN], value=None), "no ratio", ""),
        (
            row("output_tok_s", [100.0], [80.0], method=WITHIN_RUN),
            "fewer than 3 rounds",
            "1.00x [0.90, 1.10] within one round, no verdict: fewer than 3 rounds",
        ),
        (row("e2e_ms_p50", [100.0], [80.0], method=WITHIN_RUN), "exploratory", "1.00x [0.90, 1.10] within one round"),
    ],
)
def test_a_ratio_without_a_verdict_says_why(given: dict[str, Any], why: str, text: str) -> None:
    [ratio] = judged(given)
    assert (ratio["verdict"], ratio["no_verdict"], ratio["ci_adjusted"], ratio["p_adjusted"]) == (None, why, None, None)
    assert ratio["text"] == text


def test_a_round_without_a_figure_is_left_out_on_its_side() -> None:
    [ratio] = judged(row("output_tok_s", [*DOWN, None], [*UP, 101.0]))
    assert ratio["verdict"] == "faster"
    [ratio] = judged(row("output_tok_s", [*DOWN[:2], None, None], [*UP]))
    assert ratio["verdict"] is None
    assert known_rounds({"rounds": {"1": 5.0, "2": None, "10": 7.0}}) == {1: 5.0, 10: 7.0}


def test_what_the_report_says_of_the_family() -> None:
    rows = [row("output_tok_s", [*DOWN], [*UP]), row("e2e_ms_p50", [*DOWN], [*UP])]
    family = judge_speed(rows, "base", 0.03, DECIDING)
    assert family == {
        "metrics": list(DECIDING), "judged": 1, "family_error": 0.05, "fewest_rounds": 3,
        "margin": [pytest.approx(1 / 1.03), pytest.approx(1.03)], "method": "Holm",
        "opposition": 0.0,
    }  # fmt: skip
    assert judge_speed(rows, "base", 0.03, DECIDING, sequential=True)["method"] == "Holm over group-sequential looks"


def test_engines_that_move_against_each_other_get_a_wider_interval() -> None:
    with_it, against = [98.0, 102.0, 97.0, 103.0], [102.0, 98.0, 103.0, 97.0]
    together = judge_speed([row("output_tok_s", [*with_it], [*with_it])], "base", 0.03, DECIDING)
    rows = [row("output_tok_s", [*with_it], [*against])]
    opposed = judge_speed(rows, "base", 0.03, DECIDING)
    assert (together["opposition"], opposed["opposition"]) == (0.0, pytest.approx(1.0, abs=0.01))
    a, b = np.log(against), np.log(with_it)
    paired = stats.ttest_rel(a, b).confidence_interval(0.95)
    expected = [math.exp(paired.low), math.exp(paired.high)]
    assert rows[0]["speed_ratio"]["cand"]["ci_adjusted"] == pytest.approx(expected, rel=1e-3)
    # Exploratory figures say nothing about it, and neither does a figure of zero.
    more = [*rows, row("e2e_ms_p50", [*with_it], [*with_it]), row("ttft_ms_p50", [0.0, *UP[1:]], [0.0, *UP[1:]])]
    assert judge_speed(more[:2], "base", 0.03, DECIDING)["opposition"] == opposed["opposition"]


def test_looks_after_every_round_keep_what_the_third_round_decided() -> None:
    # Clear after three rounds; the fourth and fifth alone would say the opposite.
    turned = [100.0, 101.0, 100.5, 60.0, 55.0], [50.0, 50.5, 50.2, 90.0, 95.0]
    [ratio] = judged(row("output_tok_s", [*turned[1]], [*turned[0]]), sequential=True)
    assert ratio["verdict"] == "faster"
    [ratio] = judged(row("output_tok_s", [*turned[1]], [*turned[0]]))
    assert ratio["verdict"] == "inconclusive"
