"""A capacity search while it runs: the levels of one process, and the director who decides for all processes.

The director takes the records of one test, wherever its users run, and lets the search (`load.schedule.search`) judge
them. Once a level is judged, no process admits more to it; when all requests in flight have ended, the next one begins.
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
    """The levels of this process, begun as the director says; the last one is the current one."""

    def __init__(self, options: Any, shard: Shard) -> None:
        super().__init__(options, shard, [Step(float(options.start))])
        self._settled: set[int] = set()
        """Users who have sent their first request of the current level."""

    def evidence_of(self, user: int, at_ns: int) -> int | None:
        """The level (its number from 0) that a request sent now by a user says something of; None while it settles.

        All users of a level begin at once, which is a burst that no later request sees: the first request of each does
        not count, nor what is sent in the first `--settle` seconds.
        """
        start_ns = self.current.start_ns or at_ns
        is_first = self._options.step_by == "users" and user not in self._settled
        self._settled.add(user)
        return None if is_first or at_ns - start_ns < levels.settle_s(self._options) * 1e9 else self.at

    def end(self) -> bool:
        """Stop the clock of the current level; what follows is the director's to say."""
        self.current.end_ns = time.monotonic_ns()
        return False

    def go_to(self, level: float) -> None:
        """Make a level the current one, and let those go on who waited for the end of the one before."""
        before = self.current
        self.steps.append(Step(level))
        self._settled.clear()
        self.at += 1
        before.over.set()


class Director:
    """Judges the levels of one test, and says when each ends and which is next."""

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
            plan: what is searched.
            objectives: limits in ms that a request must meet.
            by: what a level is, `users` or `rate` (requests a second).
            time_limit_s: when the search ends whatever is known; 0 for no limit.
            end_level: admit no more to the current level.
            begin_level: go to a level; None ends the test.
            on_change: called once a level is judged.
            clock: seconds.
        """
        self.search = Search(plan)
        self._objectives, self._by = dict(objectives), by
        self._end_level, self._begin_level, self._on_change = end_level, begin_level, on_change
        self._taken_s = 0.0
        """How long the judged requests of the current level took in sum."""
        self._clock, self._began, self._limit_s = clock, clock(), time_limit_s

    def observe(self, record: Record, level: int | None) -> None:
        """Take in a measured request that is evidence on a level."""
        self.check_time()
        visit = self.search.current
        if level != len(self.search.visits) - 1 or visit.verdict is not None or self.search.stopped:
            return
        is_met = met(record, self._objectives)
        if is_met is None:
            self._stop("the engine's TPOT is unknown, so nobody can say whether requests meet the objective")
        elif self.search.observe(is_met, self._weight(record)):
            self._judged()

    def _weight(self, record: Record) -> float:
        """The part of an independent observation that a request of the current level is."""
        visit = self.search.current
        if self._by != "rate":
            return 1.0
        if not visit.test.requests:
            self._taken_s = 0.0
        self._taken_s += (record.end_ns - (record.sent_ns or record.end_ns)) / 1e9
        return overlap_weight(visit.level, self._taken_s / (visit.test.requests + 1))

    def check_time(self) -> None:
        """End the search where its time is up."""
        if self._limit_s and self._clock() - self._began > self._limit_s and not self.search.stopped:
            self._stop(f"the time limit of {self._limit_s:g} s")

    def level_over(self) -> None:
        """Go on: all requests of the current level have ended, in every process."""
        if self.search.current.verdict is None and not self.search.stopped:
            # Nothing was judged, such as in a test that is being stopped.
            self._begin_level(None)
            return
        visit = self.search.advance()
        self._begin_level(visit.level if visit else None)

    def _judged(self) -> None:
        told = self.search.current.to_dict()
        low, high = (100 * end for end in told["ci"])
        log.info(
            "capacity: %s: %s, %.1f%% of %d requests met the objectives [%.1f%%, %.1f%%]",
            self.words(told["level"]), told["verdict"], 100 * told["share"], told["requests"], low, high,
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
        """What scenario.json keeps as `capacity`."""
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
    """The director that the options ask for."""
    return Director(
        levels.plan(options),
        levels.objectives(options),
        by=options.step_by,
        time_limit_s=options.time_limit,
        end_level=end_level,
        begin_level=begin_level,
        on_change=on_change,
    )
