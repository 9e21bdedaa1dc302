"""The simulation of false claims, on few reports: what the full one (python -m benchmarks.false_claims) proves."""

from __future__ import annotations

import pytest

from benchmarks.false_claims import power, share_wrong


@pytest.mark.parametrize("noise", ["plain", "opposed", "together"])
@pytest.mark.parametrize("rounds", [3, 8])
def test_equal_engines_are_rarely_called_faster_or_slower(noise: str, rounds: int) -> None:
    # Of 150 reports with 5% wrong, more than 16 (10.7%) are wrong in 1 of 500 cases.
    assert share_wrong(noise, rounds, 1.0, 150) <= 0.107


def test_one_round_claims_nothing_and_equivalence_is_not_claimed_of_engines_that_differ() -> None:
    assert share_wrong("spikes", 1, 1.0, 20) == 0
    assert share_wrong("plain", 1, 0.95, 20) == 0
    assert share_wrong("plain", 5, 0.95, 60) <= 0.15


def test_a_tenth_is_found_in_five_rounds() -> None:
    assert power(5, 0.90, 20) >= 0.95
