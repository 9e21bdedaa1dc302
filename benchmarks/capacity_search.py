"""How often a capacity search finds a known knee, what it costs, and how often equal engines look different.

    python -m benchmarks.capacity_search --searches 100

Three simulated servers, whose true share of good requests at each level is taken from a long simulation:

- `queue`: closed loop; 8 slots, first come first served, service times that vary by 20%; a limit on TTFT.
- `batch`: closed loop; TPOT grows with the number in flight, varies by 6% per request and by 2% over time (AR(1), so
  that neighbouring requests are alike); a limit on TPOT.
- `rate`: open loop; Poisson arrivals at 8 slots; a limit on E2E, and 30 s to settle.

The searches are those of the load process (`load.schedule.search`), with what it leaves out: of users the first request
of each, of rates what is sent while a level settles.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from typing import Any

from load.schedule.levels import SETTLE_RATE_S
from load.schedule.search import Plan, Search, overlap_weight
from scoring.statistics.ratios import grid_blur, welch

SLOTS = 8
Outcomes = Callable[[float, random.Random], Iterator[tuple[bool, float]]]
"""Of a level: whether each judged request met the objectives, and its weight, in the order in which they end."""


def queue(level: float, rng: random.Random) -> Iterator[tuple[bool, float]]:
    """A closed loop of users at 8 slots; TTFT (prefill 0.1 s, and the wait) must be below 0.16 s."""
    users, clock = int(level), 0.0
    line, running = deque((0.0, user) for user in range(users)), list[tuple[float, int, bool]]()
    first = set(range(users))
    while True:
        while line and len(running) < SLOTS:
            sent, user = line.popleft()
            good = clock - sent + 0.1 <= 0.16
            heapq.heappush(running, (clock + rng.lognormvariate(0, 0.2), user, good))
        clock, user, good = heapq.heappop(running)
        line.append((clock, user))
        if user in first:
            first.remove(user)
        else:
            yield good, 1.0


def batch(level: float, rng: random.Random) -> Iterator[tuple[bool, float]]:
    """TPOT 10 ms * (1 + level / 16) must be below 17 ms: on average up to 11 users."""
    drift = rng.gauss(0, 0.02)
    while True:
        drift = 0.95 * drift + rng.gauss(0, 0.02 * math.sqrt(1 - 0.95**2))
        yield 10 * (1 + level / 16) * math.exp(rng.gauss(0, 0.06) + drift) <= 17, 1.0


def rate(level: float, rng: random.Random) -> Iterator[tuple[bool, float]]:
    """Poisson arrivals at 8 slots with 1 s of service (8 a second at most); E2E must be below 2 s."""
    at, free, judged, taken = 0.0, [0.0] * SLOTS, 0, 0.0
    while True:
        at += rng.expovariate(level)
        start = max(at, heapq.heappop(free))
        end = start + rng.lognormvariate(0, 0.2)
        heapq.heappush(free, end)
        if at > SETTLE_RATE_S:
            judged += 1
            taken += end - at
            yield end - at <= 2, overlap_weight(level, taken / judged)


SERVERS: dict[str, tuple[Outcomes, Plan]] = {
    "queue": (queue, Plan(1, 1, 32)),
    "batch": (batch, Plan(1, 1, 32)),
    "rate": (rate, Plan(0.5, 0.5, 16)),
}


@lru_cache
def true_share(server: str, level: float, requests: int = 60_000) -> float:
    """The share of good requests at a level, from a long simulation."""
    outcomes = SERVERS[server][0](level, random.Random(1))
    return sum(good for good, _ in itertools.islice(outcomes, requests)) / requests


def knee(server: str) -> float:
    """The highest level up to which every level has enough good requests."""
    plan = SERVERS[server][1]
    good = itertools.takewhile(lambda level: true_share(server, level) >= plan.share, plan.levels)
    return max(good, default=0.0)


def search(server: str, seed: int, plan: Plan | None = None) -> dict[str, Any]:
    """One simulated search; its result."""
    outcomes, known = SERVERS[server]
    rng, found = random.Random(seed), Search(plan or known)
    while True:
        of_level = outcomes(found.current.level, rng)
        while not found.observe(*next(of_level)):
            pass
        if found.advance() is None:
            return found.result()


def searches(server: str, count: int) -> list[dict[str, Any]]:
    with ProcessPoolExecutor() as pool:
        return list(pool.map(search, [server] * count, range(count), chunksize=10))


def within_a_step(server: str, result: dict[str, Any]) -> bool:
    """Whether the highest level that passes is at most a step from the knee."""
    step = SERVERS[server][1].step
    return result["passes"] is not None and abs(result["passes"] - knee(server)) <= step + 1e-9


def holds(server: str, result: dict[str, Any]) -> bool:
    """Whether the knee lies in the bracket: it passes, and the next level does not."""
    return bool((result["passes"] or 0) <= knee(server) < (result["fails"] or math.inf))


def equal_ratio_held(results: list[dict[str, Any]], rounds: int) -> tuple[int, int]:
    """Of pairs of engines that are the same, each measured in so many rounds: (intervals that hold 1, pairs)."""
    held = pairs = 0
    known = [result for result in results if result["passes"] is not None and result["fails"] is not None]
    for at in range(0, len(known) - 2 * rounds + 1, 2 * rounds):
        sides = known[at : at + rounds], known[at + rounds : at + 2 * rounds]
        widths = [sum(math.log(one["fails"] / one["passes"]) for one in side) / rounds for side in sides]
        passes = [[one["passes"] for one in side] for side in sides]
        interval = welch(*passes, blur=grid_blur(*widths)).ratio_interval()
        held += interval.low <= 1 <= interval.high
        pairs += 1
    return held, pairs


def main() -> None:
    """Print a table, one line for each server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=100)
    asked = parser.parse_args()
    print("| server | knee | passes within one step | knee in the bracket | requests, mean (most) | A/A holds 1 |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for server in SERVERS:
        results = searches(server, asked.searches)
        near = sum(within_a_step(server, result) for result in results)
        inside = sum(holds(server, result) for result in results)
        spent = [result["requests"] for result in results]
        held, pairs = equal_ratio_held(results, 3)
        print(
            f"| {server} | {knee(server):g} | {near} of {len(results)} | {inside} | {sum(spent) / len(spent):,.0f}"
            f" ({max(spent):,}) | {held} of {pairs} |"
        )


if __name__ == "__main__":
    main()
