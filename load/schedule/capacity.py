"""Runs a capacity search: the levels of one process, and the director that decides for all processes.

The director gets the records of a test from all processes, and lets the search (`load.schedule.search`) judge
them. Once a level is judged, no process admits more requests to it. When all requests in flight have ended, the next
level begins.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from load.schedule import levels
from load.schedule.search import Plan, Search, overlap_weight
from load.schedule.sweep import Step, Steps
from load.schedule.tickets import Shard
from records import Record
from records.objectives import met

log = logging.getLogger("enginebench")


class CapacitySteps(Steps):
    """The levels of this process. The director starts them; the last one is the current one."""

    def __init__(self, options: Any, shard: Shard) -> None:
        super().__init__(options, shard, [Step(float(options.start))])
        self._settled: set[int] = set()
        """Users that have sent their first request of the current level."""

    def evidence_of(self, user: int, at_ns: int) -> int | None:
        """The level (its number from 0) for which a user's request counts if sent now; None while it settles.

        All users of a level begin at once, a burst that no later request meets. So each user's first request does not
        count, and neither do requests in the first `--settle` seconds.
        """
        start_ns = self.current.start_ns or at_ns
        is_first = self._options.step_by == "users" and user not in self._settled
        self._settled.add(user)
        return None if is_first or at_ns - start_ns < levels.settle_s(self._options) * 1e9 else self.at

    def end(self) -> bool:
        """Stop the clock of the current level; the director decides what follows."""
        self.current.end_ns = time.monotonic_ns()
        return False

    def go_to(self, level: float) -> None:
        """Make a level the current one, and release the users that waited for the end of the previous one."""
        before = self.current
        self.steps.append(Step(level))
        self._settled.clear()
        self.at += 1
        before.over.set()


class Director:
    """Judges the levels of one test, and decides when each ends and which is next."""

    def __init__(
        self,
        plan: Plan,
        objectives: Mapping[str, float],
        *,
        by: str,
        time_limit_s: float,
        end_level: Callable[[], None],
        begin_level: Callable[[float | None], None],
        on_change: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin a search.

        Args:
            plan: the levels and limits of the search.
            objectives: limits in ms that a request must meet.
            by: what a level is, `users` or `rate` (requests per second).
            time_limit_s: seconds after which the search ends; 0 for no limit.
            end_level: admits no more requests to the current level.
            begin_level: goes to a level; None ends the test.
            on_change: called once a level is judged.
            clock: returns seconds.
        """
        self.search = Search(plan)
        self._objectives, self._by = dict(objectives), by
        self._end_level, self._begin_level, self._on_change = end_level, begin_level, on_change
        self._taken_s = 0.0
        """Total duration of the judged requests of the current level, in seconds."""
        self._clock, self._began, self._limit_s = clock, clock(), time_limit_s

    def observe(self, record: Record, level: int | None) -> None:
        """Add a measured request that counts for a level."""
        self.check_time()
        visit = self.search.current
        if level != len(self.search.visits) - 1 or visit.verdict is not None or self.search.stopped:
            return
        is_met = met(record, self._objectives)
        if is_met is None:
            self._stop("the engine's TPOT is unknown, so requests cannot be judged by that objective")
        elif self.search.observe(is_met, self._weight(record)):
            self._judged()

    def _weight(self, record: Record) -> float:
        """The weight of a request of the current level, as a fraction of an independent observation."""
        visit = self.search.current
        if self._by != "rate":
            return 1.0
        if not visit.test.requests:
            self._taken_s = 0.0
        self._taken_s += (record.end_ns - (record.sent_ns or record.end_ns)) / 1e9
        return overlap_weight(visit.level, self._taken_s / (visit.test.requests + 1))

    def check_time(self) -> None:
        """End the search if its time is up."""
        if self._limit_s and self._clock() - self._began > self._limit_s and not self.search.stopped:
            self._stop(f"the time limit of {self._limit_s:g} s")

    def level_over(self) -> None:
        """Continue: all requests of the current level have ended, in every process."""
        if self.search.current.verdict is None and not self.search.stopped:
            # No level was judged, for example because the test is being stopped.
            self._begin_level(None)
            return
        visit = self.search.advance()
        self._begin_level(visit.level if visit else None)

    def _judged(self) -> None:
        visit = self.search.current.to_dict()
        low, high = (100 * end for end in visit["ci"])
        log.info(
            "capacity: %s: %s, %.1f%% of %d requests met the objectives [%.1f%%, %.1f%%]",
            self.words(visit["level"]), visit["verdict"], 100 * visit["share"], visit["requests"], low, high,
        )  # fmt: skip
        self._on_change()
        self._end_level()

    def _stop(self, reason: str) -> None:
        self.search.stop(reason)
        log.info("capacity: the search ends at %s: %s", self.words(self.search.current.level), reason)
        self._on_change()
        self._end_level()

    def words(self, level: float) -> str:
        """A level with its unit."""
        return f"{level:g} {'requests/s' if self._by == 'rate' else 'user' if level == 1 else 'users'}"

    def summary(self) -> dict[str, Any]:
        """The field `capacity` of scenario.json."""
        plan = self.search.plan
        return {
            "by": self._by,
            "start": plan.start,
            "step": plan.step,
            "end": plan.end,
            "pass_share": plan.share,
            "confidence": plan.confidence,
            "objectives": self._objectives,
            **self.search.result(),
        }


def director(
    options: Any,
    *,
    end_level: Callable[[], None],
    begin_level: Callable[[float | None], None],
    on_change: Callable[[], None],
) -> Director:
    """The director for the given options."""
    return Director(
        levels.plan(options),
        levels.objectives(options),
        by=options.step_by,
        time_limit_s=options.time_limit,
        end_level=end_level,
        begin_level=begin_level,
        on_change=on_change,
    )
