"""Searches the highest level of load that still meets the objectives. Pure: no clock, no requests, no Locust.

Levels lie on a grid. The search doubles from `start` until a level fails, then halves the gap between the highest
level that passes and the lowest that fails. The search goes on to both
sides of a level that stays undecided up to its cap of requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from load.schedule.evidence import FAILS, PASSES, UNDECIDED, ShareTest

MOST_REQUESTS = 3000
OVERLAP = 0.5
"""Share of the mean number in flight that counts as one observation, if requests arrive by a schedule."""


def overlap_weight(rate: float, mean_s: float) -> float:
    """The weight of a request that arrived by a schedule, as a fraction of an independent observation.

    Requests in the same queue are late together. The mean number in flight is rate * mean_s (Little's law). Without
    this weight, a search stops at a lucky stretch and names too high a rate in a quarter of cases
    (`benchmarks.capacity_search`).

    Args:
        rate: requests per second.
        mean_s: mean duration of a request, in seconds.
    """
    return 1 / max(1.0, OVERLAP * rate * mean_s)


@dataclass(frozen=True, slots=True)
class Plan:
    """The levels and limits of a search."""

    start: float
    step: float
    end: float
    share: float = 0.95
    """The least share of requests that must meet every objective."""
    confidence: float = 0.95
    """Confidence of the verdict on each level."""
    most_requests: int = MOST_REQUESTS
    """A level that is not decided after this many requests stays undecided."""
    from_above: bool = True
    """Whether the passing level must pass again after a failed level: a server may not recover from an overload."""

    @property
    def levels(self) -> list[float]:
        """The grid, `end` included."""
        count = int((self.end - self.start) / self.step + 1e-9) + 1
        grid = [round(self.start + k * self.step, 9) for k in range(count)]
        return grid if grid[-1] >= self.end - 1e-9 else [*grid, self.end]


@dataclass(slots=True)
class Visit:
    """One measurement of one level."""

    number: int
    """Place of the level in the grid."""
    level: float
    test: ShareTest
    verdict: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """{level, requests, met, share, ci, verdict} so far; the share is null before the first request."""
        test = self.test
        return {
            "level": self.level,
            "requests": test.requests,
            "met": test.met,
            "share": test.met / test.requests if test.requests else None,
            "ci": list(test.interval()),
            "verdict": self.verdict,
        }


@dataclass(slots=True)
class Search:
    """The levels measured so far, the last of which is the current one."""

    plan: Plan
    visits: list[Visit] = field(default_factory=list)
    stopped: str | None = None
    """Why the search ended without a result."""
    _grid: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin at the first level."""
        self._grid = self.plan.levels
        self._visit(0)

    @property
    def current(self) -> Visit:
        return self.visits[-1]

    def observe(self, met: bool, weight: float = 1.0) -> bool:
        """Add a request of the current level; returns whether the level is judged now.

        `weight` is its fraction of an independent observation (`overlap_weight`).
        """
        visit = self.current
        visit.test.add(met, weight)
        if visit.verdict is None:
            if visit.test.verdict:
                visit.verdict = visit.test.verdict
            elif visit.test.requests >= self.plan.most_requests:
                visit.verdict = UNDECIDED
        return visit.verdict is not None

    def stop(self, reason: str) -> None:
        """End the search without a result. The first reason stays."""
        self.stopped = self.stopped or reason

    def advance(self) -> Visit | None:
        """Go to the next level; None if the search is over."""
        number = None if self.stopped else self._next()
        if number is None:
            return None
        self._visit(number)
        return self.current

    def _visit(self, number: int) -> None:
        level = self._grid[number]
        self.visits.append(Visit(number, level, ShareTest(self.plan.share, self.plan.confidence)))

    def _last_verdicts(self) -> dict[int, str]:
        """The verdict of each judged level; if it was measured several times, the last decided verdict."""
        verdicts: dict[int, str] = {}
        for visit in self.visits:
            if visit.verdict and not (visit.verdict == UNDECIDED and visit.number in verdicts):
                verdicts[visit.number] = visit.verdict
        return verdicts

    def _ends(self) -> tuple[int, int]:
        """Places of the highest level that passes (-1: none) and of the lowest that fails (beyond the grid: none).

        A level that passes above a failing level does not count.
        """
        verdicts = self._last_verdicts()
        fails = min((number for number, verdict in verdicts.items() if verdict == FAILS), default=len(self._grid))
        passing = (number for number, verdict in verdicts.items() if verdict == PASSES and number < fails)
        return max(passing, default=-1), fails

    def _next(self) -> int | None:
        low, high = self._ends()
        undecided = [n for n, verdict in self._last_verdicts().items() if verdict == UNDECIDED and low < n < high]
        below, above = min(undecided, default=high), max(undecided, default=low)
        if undecided and below - low > 1:
            return (low + below) // 2
        if high < len(self._grid):
            if high - above > 1:
                return (above + high) // 2
            return low if self._must_pass_again(low) else None
        last = len(self._grid) - 1
        if above == last:
            return None
        doubled = 2 * self._grid[above]
        return next((n for n in range(above + 1, last) if self._grid[n] >= doubled), last)

    def _must_pass_again(self, low: int) -> bool:
        """Whether the passing level was measured only before any level had failed."""
        if low < 0 or not self.plan.from_above:
            return False
        first_fail = next(place for place, visit in enumerate(self.visits) if visit.verdict == FAILS)
        return all(visit.number != low for visit in self.visits[first_fail:])

    def result(self) -> dict[str, Any]:
        """{passes, fails, at_least_end, below_start, undecided, requests, complete, reason, levels} as it stands.

        `passes` and `fails` are the bracket, null if no level did; `requests` counts the judged requests.
        """
        low, high = self._ends()
        undecided = sorted(
            self._grid[n] for n, verdict in self._last_verdicts().items() if verdict == UNDECIDED and low < n < high
        )
        over = self.stopped is None and self.current.verdict is not None and self._next() is None
        reason = self.stopped or (None if over else "the search is not over")
        return {
            "passes": self._grid[low] if low >= 0 else None,
            "fails": self._grid[high] if high < len(self._grid) else None,
            "at_least_end": low == len(self._grid) - 1,
            "below_start": high == 0,
            "undecided": undecided,
            "requests": sum(visit.test.requests for visit in self.visits),
            "complete": over,
            "reason": reason,
            "levels": [visit.to_dict() for visit in self.visits],
        }
