"""The steps of a load over concurrency or rate: which is running, who takes part, where a sweep gains nothing."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from gevent.event import Event

from load.schedule.tickets import Shard

GROWTH = 1.05
"""A step gains nothing if its throughput is less than this times the best one before it."""


@dataclass(slots=True)
class Step:
    """One level of a sweep: how many users take part, or how many requests a second arrive; and what came of it."""

    level: float
    start_ns: int | None = None
    end_ns: int | None = None
    admitted: int = 0
    ended: int = 0
    used_up: bool = False
    over: Event = field(default_factory=Event)

    @property
    def requests_s(self) -> float | None:
        """Requests that ended, a second of the step; None while it is not over."""
        if self.start_ns is None or self.end_ns is None or self.end_ns <= self.start_ns:
            return None
        return self.ended / ((self.end_ns - self.start_ns) / 1e9)

    def to_dict(self) -> dict[str, Any]:
        return {
            "level": self.level,
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "admitted": self.admitted,
            "requests_s": self.requests_s,
        }


class Steps(ABC):
    """Steps of a load that follow each other, one of which is the current one."""

    def __init__(self, options: Any, shard: Shard, steps: list[Step]) -> None:
        self._options, self._shard = options, shard
        self.steps = steps
        self.at = 0
        self.saturated_at: float | None = None

    @property
    def current(self) -> Step:
        return self.steps[self.at]

    @property
    def begun(self) -> int:
        """Steps that have begun and have a user of this process in them."""
        return sum(step.start_ns is not None and self._has(0, step) for step in self.steps)

    def takes_part(self, user: int) -> bool:
        """Whether a user of this process has a part in the current step."""
        return self._has(user, self.current)

    def holds_back(self, user: int) -> bool:
        """Whether a user of this process has to wait for the end of the current step."""
        return self.current.used_up or not self.takes_part(user)

    def evidence_of(self, user: int, at_ns: int) -> int | None:
        """The level that a request sent now by a user is evidence on, where one is searched; None for no level."""
        return None

    def _has(self, user: int, step: Step) -> bool:
        return self._options.step_by == "rate" or user < self._shard.share(int(step.level))

    def begin(self) -> Step:
        """Start the clock of the current step."""
        self.current.start_ns = time.monotonic_ns()
        return self.current

    @abstractmethod
    def end(self) -> bool:
        """Stop the clock of the current step; returns whether another is to follow."""

    def release(self) -> None:
        """Nobody waits for any step any more."""
        for step in self.steps:
            step.over.set()


class Sweep(Steps):
    """Steps that are known beforehand."""

    def __init__(self, options: Any, shard: Shard) -> None:
        super().__init__(options, shard, [Step(float(level)) for level in options.steps.split(",")])

    def end(self) -> bool:
        step = self.current
        step.end_ns = time.monotonic_ns()
        best = max((before.requests_s or 0.0 for before in self.steps[: self.at]), default=0.0)
        if self.saturated_at is None and (step.requests_s or 0.0) < best * GROWTH:
            self.saturated_at = step.level
        enough = self._options.stop_at_saturation and self.saturated_at is not None
        return self.at + 1 < len(self.steps) and not enough

    def advance(self) -> None:
        """Go to the next step, and let those go on who waited for the end of this one."""
        before = self.current
        self.at += 1
        before.over.set()
