"""The steps of a load over concurrency or rate: the current step, its users, and when a sweep is saturated."""

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
    """One level of a sweep: its number of users or its rate, and its result."""

    level: float
    start_ns: int | None = None
    end_ns: int | None = None
    admitted: int = 0
    ended: int = 0
    used_up: bool = False
    over: Event = field(default_factory=Event)

    @property
    def requests_s(self) -> float | None:
        """Ended requests per second of the step; None until it is over."""
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
    """Successive steps of a load, one of which is the current step."""

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
        """Number of steps that have begun and have a user of this process."""
        return sum(step.start_ns is not None and self._has(0, step) for step in self.steps)

    def takes_part(self, user: int) -> bool:
        """Whether a user of this process takes part in the current step."""
        return self._has(user, self.current)

    def holds_back(self, user: int) -> bool:
        """Whether a user of this process must wait for the end of the current step."""
        return self.current.used_up or not self.takes_part(user)

    def evidence_of(self, user: int, at_ns: int) -> int | None:
        """The level for which a user's request counts as evidence if sent now; None for none."""
        return None

    def _has(self, user: int, step: Step) -> bool:
        return self._options.step_by == "rate" or user < self._shard.share(int(step.level))

    def begin(self) -> Step:
        """Start the clock of the current step."""
        self.current.start_ns = time.monotonic_ns()
        return self.current

    @abstractmethod
    def end(self) -> bool:
        """Stop the clock of the current step; returns whether another step follows."""

    def release(self) -> None:
        """Release all users that wait for a step."""
        for step in self.steps:
            step.over.set()


class Sweep(Steps):
    """The steps of a sweep, which are known from the start."""

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
        """Go to the next step, and release the users that waited for the end of this one."""
        before = self.current
        self.at += 1
        before.over.set()
