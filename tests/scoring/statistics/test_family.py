"""Holm's step-down procedure."""

from __future__ import annotations

import pytest

from scoring.statistics.family import holm


def test_adjusted_p_values_are_those_of_r() -> None:
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm")
    assert [step.p_adjusted for step in holm([0.01, 0.02, 0.03, 0.04, 0.05])] == pytest.approx(
        [0.05, 0.08, 0.09, 0.09, 0.09]
    )
    # R: p.adjust(c(0.001, 0.8, 0.01, 0.6, 0.02), "holm")
    assert [step.p_adjusted for step in holm([0.001, 0.8, 0.01, 0.6, 0.02])] == pytest.approx(
        [0.005, 1.0, 0.04, 1.0, 0.06]
    )


def test_levels_step_down_until_one_claim_stays_open() -> None:
    steps = holm([0.3, 0.001, 0.012, 0.2])
    assert [step.rejected for step in steps] == [False, True, True, False]
    assert [step.level for step in steps] == pytest.approx([0.025, 0.0125, 0.05 / 3, 0.025])


def test_a_claim_behind_one_that_stayed_open_stays_open() -> None:
    # Against its own step (0.05 / 1) the second would pass; the first, at 0.05 / 2, did not.
    assert [step.rejected for step in holm([0.026, 0.04])] == [False, False]
    assert [step.rejected for step in holm([0.025, 0.05])] == [True, True]


def test_one_claim_is_judged_at_the_whole_error_and_none_is_no_family() -> None:
    (step,) = holm([0.05])
    assert (step.rejected, step.level, step.p_adjusted) == (True, 0.05, 0.05)
    assert holm([]) == []
