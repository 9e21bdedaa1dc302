"""The nightly gate: what it catches, and how seldom it cries wolf (in full: benchmarks/statistics_power.py)."""

import numpy as np
import pytest

from scoring.gate import IMPROVEMENT, NOT_JUDGED, OK, REGRESSION, gate


def test_a_clear_slowdown_of_a_throughput_fails() -> None:
    found = gate([100.0, 101.0, 99.5], [90.0, 90.5, 89.8])
    assert found.fails
    assert found.verdict == REGRESSION
    assert found.ratio == pytest.approx(0.9, abs=0.01)
    assert "0.9" in found.text


def test_a_latency_that_falls_is_an_improvement() -> None:
    assert gate([10.0, 10.1, 9.9], [8.0, 8.1, 7.9], better="lower").verdict == IMPROVEMENT


def test_a_sure_but_small_effect_passes() -> None:
    found = gate([100.0, 100.1, 99.9, 100.0], [98.0, 98.1, 97.9, 98.0], threshold=0.03)
    assert found.ci is not None
    assert found.ci.high < 1
    assert found.verdict == OK


def test_known_noise_of_the_host_raises_the_limit() -> None:
    base, slower = [100.0, 100.1, 99.9], [95.0, 95.1, 94.9]
    assert gate(base, slower).fails
    assert not gate(base, slower, aa_noise=0.04).fails


def test_one_run_a_side_is_not_judged() -> None:
    assert gate([100.0], [50.0, 51.0]).verdict == NOT_JUDGED
    assert gate([100.0, 0.0], [50.0, 51.0]).verdict == NOT_JUDGED


def test_false_alarms_and_power_are_what_the_methodology_says() -> None:
    rng = np.random.default_rng(7)
    nights = 3000
    noise = rng.normal(0, 0.02, (nights, 2, 5))
    alarms = sum(gate(np.exp(a).tolist(), np.exp(b).tolist(), 0.02 * (2 / 5) ** 0.5).fails for a, b in noise)
    found = sum(gate(np.exp(a).tolist(), (0.95 * np.exp(b)).tolist(), 0.02 * (2 / 5) ** 0.5).fails for a, b in noise)
    assert alarms / nights <= 0.02
    assert found / nights >= 0.88
