"""The capacity search and its evidence, without any load: which levels are measured, and how often it is wrong."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from load.schedule.evidence import FAILS, PASSES, UNDECIDED, ShareTest, evidence
from load.schedule.search import Plan, Search


def searched(plan: Plan, share_of: Callable[[float], float], *, seed: int = 0) -> tuple[list[float], dict[str, Any]]:
    """The levels in the order in which they were measured, and the result."""
    rng, search = random.Random(seed), Search(plan)
    while True:
        share = share_of(search.current.level)
        while not search.observe(rng.random() < share):
            pass
        if search.advance() is None:
            return [visit.level for visit in search.visits], search.result()


def knee(at: float) -> Callable[[float], float]:
    return lambda level: 1.0 if level <= at else 0.5


# -- evidence ---------------------------------------------------------------------------------------------------------


def decided(outcomes: Sequence[bool], bar: float = 0.95) -> tuple[str | None, int]:
    test = ShareTest(bar, 0.95)
    for outcome in outcomes:
        if test.verdict is None:
            test.add(outcome)
    return test.verdict, test.requests


def test_a_level_is_judged_as_soon_as_its_interval_is_clear_of_the_bar() -> None:
    assert decided([True] * 200) == (PASSES, 73)
    assert decided([False] * 200) == (FAILS, 2)
    assert decided([True] * 72) == (None, 72)
    test = ShareTest(0.95, 0.95)
    for _ in range(73):
        assert test.interval()[0] < 0.95
        test.add(True)
    low, high = test.interval()
    assert 0.95 < low < 0.952
    assert high == 1.0


def test_a_miss_among_the_first_needs_more_requests() -> None:
    verdict, requests = decided([False, *[True] * 400])
    assert verdict == PASSES
    assert 110 < requests < 180


def test_before_the_first_request_anything_is_allowed() -> None:
    assert ShareTest(0.95, 0.95).interval() == (0.0, 1.0)
    assert evidence(0, 0, 0.95, above=True) == pytest.approx(0.0)
    assert evidence(0, 0, 0.95, above=False) == pytest.approx(0.0)


@pytest.mark.parametrize("above", [True, False])
def test_the_evidence_is_a_martingale_at_the_bar(above: bool) -> None:
    """Its expectation after one more request is what it was: looking after every request is no error."""
    for met, missed in ((0, 0), (10, 1), (3, 5)):
        now = math.exp(evidence(met, missed, 0.9, above=above))
        then = 0.9 * math.exp(evidence(met + 1, missed, 0.9, above=above))
        then += 0.1 * math.exp(evidence(met, missed + 1, 0.9, above=above))
        assert then == pytest.approx(now, rel=1e-9)


@pytest.mark.parametrize("share", [0.95, 0.96])
def test_a_level_at_or_above_the_bar_is_failed_in_few_cases_however_long_it_is_watched(share: float) -> None:
    rng, wrong = random.Random(7), 0
    for _ in range(150):
        wrong += decided([rng.random() < share for _ in range(800)])[0] == FAILS
    assert wrong <= 13  # 5% of 150, and two standard deviations


# -- the search --------------------------------------------------------------------------------------------------------


def test_it_doubles_until_a_level_fails_and_halves_the_gap() -> None:
    levels, result = searched(Plan(1, 1, 32), knee(11))
    assert levels == [1, 2, 4, 8, 16, 12, 10, 11]
    assert (result["passes"], result["fails"], result["complete"], result["reason"]) == (11, 12, True, None)
    assert result["requests"] == 6 * 73 + sum(level["requests"] for level in result["levels"] if level["level"] > 11)


def test_a_level_that_passed_only_on_the_way_up_is_measured_again_after_one_that_failed() -> None:
    levels, result = searched(Plan(1, 1, 32), knee(4))
    assert levels[-1] == 4
    assert levels.count(4) == 2
    assert (result["passes"], result["fails"]) == (4, 5)
    assert searched(Plan(1, 1, 32, from_above=False), knee(4))[0] == levels[:-1]


def test_a_server_that_does_not_recover_is_found_out() -> None:
    search, overloaded = Search(Plan(1, 1, 8)), False
    while True:
        level = search.current.level
        overloaded |= level > 4
        good = level <= (2 if overloaded else 4)
        while not search.observe(good):
            pass
        if search.advance() is None:
            break
    result = search.result()
    assert (result["passes"], result["fails"]) == (2, 3)


def test_everything_passes_or_nothing_does() -> None:
    levels, result = searched(Plan(2, 2, 9), knee(100))
    assert levels == [2, 4, 8, 9]
    assert (result["passes"], result["fails"], result["at_least_end"]) == (9, None, True)
    levels, result = searched(Plan(2, 2, 9), knee(0))
    assert (levels, result["passes"], result["fails"], result["below_start"]) == ([2], None, 2, True)


def test_a_level_on_the_bar_stays_undecided_and_inside_the_bracket() -> None:
    levels, result = searched(
        Plan(1, 1, 16, most_requests=100), lambda level: 1.0 if level < 6 else 0.95 if level == 6 else 0.3, seed=3
    )
    verdicts = {visit["level"]: visit["verdict"] for visit in result["levels"]}
    assert verdicts[6] == UNDECIDED
    assert (result["passes"], result["undecided"], result["fails"]) == (5, [6], 7)
    assert result["complete"]
    assert len(levels) <= 9


def test_a_search_that_is_stopped_knows_what_it_knows() -> None:
    search = Search(Plan(1, 1, 8))
    while not search.observe(True):
        pass
    assert search.advance() is not None
    search.observe(True)
    search.stop("the time limit of 9 s")
    assert search.advance() is None
    result = search.result()
    assert (result["passes"], result["fails"], result["complete"]) == (1, None, False)
    assert result["reason"] == "the time limit of 9 s"
    assert result["at_least_end"] is False


def test_the_grid_ends_with_the_end() -> None:
    assert Plan(0.5, 0.5, 2).levels == [0.5, 1.0, 1.5, 2.0]
    assert Plan(1, 3, 9).levels == [1, 4, 7, 9]
    assert Plan(4, 1, 4).levels == [4]


@pytest.mark.parametrize("at", [1, 5, 8, 23])
def test_the_knee_is_found_within_one_step(at: int) -> None:
    found = [searched(Plan(1, 1, 32), knee(at), seed=seed)[1] for seed in range(20)]
    assert sum(result["passes"] is not None and abs(result["passes"] - at) <= 1 for result in found) >= 19
