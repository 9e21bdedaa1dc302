"""The simulation of capacity searches: known knees are found, and equal engines look equal."""

from __future__ import annotations

import pytest

from benchmarks.capacity_search import equal_ratio_held, holds, knee, search, within_a_step
from load.schedule.search import overlap_weight


@pytest.mark.parametrize(("server", "searches"), [("queue", 30), ("batch", 10)])
def test_a_known_knee_is_found_within_one_step(server: str, searches: int) -> None:
    assert knee(server) == 8
    results = [search(server, seed) for seed in range(searches)]
    assert sum(within_a_step(server, result) for result in results) >= 0.95 * searches
    assert sum(holds(server, result) for result in results) >= 0.9 * searches
    held, pairs = equal_ratio_held(results, 3)
    assert held == pairs > 0


def test_requests_that_overlap_are_less_than_one_observation_each() -> None:
    assert overlap_weight(0.5, 1.0) == 1.0
    # 8 a second that take 2 s: 16 in flight, of which half count as one.
    assert overlap_weight(8, 2.0) == pytest.approx(1 / 8)
