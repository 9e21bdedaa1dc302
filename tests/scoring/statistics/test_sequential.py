"""The group-sequential rule against published bounds, and what it promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from scoring.statistics.intervals import StudentEstimate
from scoring.statistics.sequential import SequentialFamily, needed_rounds, nominal_levels, spent

MARGIN = math.log(1.03)


def test_the_bounds_of_five_looks_are_the_published_ones() -> None:
    # Lan-DeMets with the Pocock-type function, two-sided 5%, five equal looks (Reboussin et al. 2000, Control. Clin.
    # Trials 21:190; R ldbounds): 2.4380, 2.4268, 2.4101, 2.3966, 2.3859.
    bounds = [-stats.norm.ppf(level / 2) for level in nominal_levels(0.05, (1, 2, 3, 4, 5), most=5)]
    assert bounds == pytest.approx([2.4380, 2.4268, 2.4101, 2.3966, 2.3859], abs=3e-4)


def test_one_look_at_the_end_spends_all() -> None:
    assert nominal_levels(0.05, (8,), most=8) == pytest.approx((0.05,))
    assert (spent(0.0, 0.05), spent(1.0, 0.05), spent(2.0, 0.05)) == pytest.approx((0.0, 0.05, 0.05))
    assert spent(0.5, 0.05) == pytest.approx(0.05 * math.log(1 + (math.e - 1) / 2))


def test_unequal_looks_spend_the_error_that_drawing_spends() -> None:
    looks, most = (3, 4, 7, 12), 12
    bounds = [-stats.norm.ppf(level / 2) for level in nominal_levels(0.05, looks, most)]
    steps = np.random.default_rng(5).normal(size=(200_000, most)).cumsum(axis=1)
    crossed = np.zeros(len(steps), dtype=bool)
    for look, bound in zip(looks, bounds, strict=True):
        crossed |= np.abs(steps[:, look - 1]) > bound * math.sqrt(look)
        assert crossed.mean() == pytest.approx(spent(look / most, 0.05), abs=0.002)


def test_a_clear_difference_is_decided_at_the_first_look_and_stays_so() -> None:
    family = SequentialFamily(2)
    clear, unclear = StudentEstimate(-0.5, 0.02, 4), StudentEstimate(0.01, 0.02, 4)
    family.look(3, [(clear, MARGIN), (unclear, MARGIN)])
    assert (family.outcomes, family.decided) == (["below", "inconclusive"], False)
    family.look(4, [(StudentEstimate(0.5, 0.02, 6), MARGIN), (StudentEstimate(0.0, 0.001, 6), MARGIN)])
    assert (family.outcomes, family.decided) == (["below", "equivalent"], True)


def test_what_one_test_would_call_different_is_open_at_a_look() -> None:
    # p = 0.029 alone; the first of 14 looks may spend only a quarter of 5%.
    family = SequentialFamily(1)
    (judgement,) = family.look(3, [(StudentEstimate(0.10, 0.03, 4), MARGIN)])
    assert judgement is not None
    assert judgement.outcome == "inconclusive"
    assert judgement.confidence == pytest.approx(1 - spent(3 / 16, 0.05))
    assert judgement.p_adjusted == pytest.approx(0.028994 * 0.05 / spent(3 / 16, 0.05), rel=1e-3)


def test_a_decided_figure_hands_its_error_to_the_others() -> None:
    level = spent(3 / 16, 0.05)
    p = level * 0.99
    just = StudentEstimate(-float(stats.t.ppf(p / 2, 4)) * 0.03, 0.03, 4)
    alone = SequentialFamily(2)
    alone.look(3, [(just, MARGIN), (StudentEstimate(0.0, 0.03, 4), MARGIN)])
    beside = SequentialFamily(2)
    beside.look(3, [(just, MARGIN), (StudentEstimate(-0.9, 0.01, 4), MARGIN)])
    assert (alone.outcomes, beside.outcomes) == (["inconclusive", "inconclusive"], ["above", "below"])


def test_a_figure_that_is_not_known_is_left_open_and_nothing_is_decided_after_the_last_look() -> None:
    family = SequentialFamily(1, most=4)
    assert family.look(3, [None]) == [None]
    family.look(5, [(StudentEstimate(-0.5, 0.02, 8), MARGIN)])
    assert family.outcomes == ["inconclusive"]


def test_the_rounds_that_are_needed_follow_from_ratio_and_spread() -> None:
    # 4% with a standard error of 2% at 4 rounds: 2.306 * 0.04 / sqrt(5) = 0.0413, 2.228 * 0.04 / sqrt(6) = 0.0364.
    assert needed_rounds(StudentEstimate(0.04, 0.02, 6), 4, MARGIN, 0.05, 0.05) == 6
    fits = needed_rounds(StudentEstimate(0.0, 0.02, 6), 4, MARGIN, 0.05, 0.05)
    assert fits is not None
    assert stats.t.ppf(0.95, 2 * fits - 2) * 0.04 / math.sqrt(fits) < MARGIN
    assert stats.t.ppf(0.95, 2 * fits - 4) * 0.04 / math.sqrt(fits - 1) > MARGIN
    assert needed_rounds(StudentEstimate(MARGIN, 5.0, 6), 4, MARGIN, 0.05, 0.05) is None
