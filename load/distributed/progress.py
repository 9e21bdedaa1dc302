"""Tracks the progress of a distributed test: which workers are warm, have sent everything, have ended or are lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from load.capture import Capture
from load.schedule.capacity import Director
from records.utc import utc_now


@dataclass
class Progress:
    """The master's state of one test. It does no I/O and reads no clock except for the start."""

    capture: Capture
    expected: set[str]
    """The ids of the workers that take part in the test."""
    users: int
    """The requested number of users, over all workers."""
    warm: set[str] = field(default_factory=set)
    measuring: bool = False
    """Whether the workers were told to measure."""
    director: Director | None = None
    """The director of a capacity search, or None."""
    part: str | None = None
    """The step or phase of the record that is being taken in, as its worker named it."""
    level_over: set[str] = field(default_factory=set)
    """Workers whose requests of the current level have all ended."""
    over: set[str] = field(default_factory=set)
    """Workers that have sent all their requests."""
    ends: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Each worker's report at its end."""
    lost: set[str] = field(default_factory=set)
    """Workers that vanished before their end."""
    failure: str | None = None
    draining: bool = False
    """Whether a stop is in progress. Locust stops again if a worker reported its start late."""
    started_utc: str = field(default_factory=lambda: utc_now(milliseconds=True))

    @property
    def here(self) -> list[str]:
        """The workers that can still receive messages."""
        return sorted(self.expected - self.lost)

    @property
    def all_warm(self) -> bool:
        return self.expected <= self.warm | set(self.ends) | self.lost

    @property
    def all_level_over(self) -> bool:
        return self.expected <= self.level_over | set(self.ends) | self.lost

    @property
    def all_over(self) -> bool:
        return self.expected <= self.over | self.lost

    @property
    def all_ended(self) -> bool:
        return self.expected <= set(self.ends) | self.lost

    def fail(self, reason: str) -> None:
        """Make the test incomplete. The first reason stays."""
        self.failure = self.failure or reason

    def see_workers(self, present: Iterable[str], missing: Iterable[str]) -> list[str]:
        """Compare the workers that Locust knows with the expected ones; returns those newly lost.

        A worker that takes part without an assigned shard makes the test incomplete.
        """
        connected, silent = set(present), set(missing)
        gone = (self.expected - connected | self.expected & silent) - self.lost - set(self.ends) - self.over
        self.lost |= gone
        if foreign := sorted(connected - self.expected):
            self.fail(f"a worker joined during the test: {', '.join(foreign)}")
        return sorted(gone)

    def incomplete_reason(self, users: int) -> str | None:
        """Why the capture is incomplete; None if it is complete.

        Args:
            users: Locust's present number of users, which the web UI can change during a test.
        """
        if self.failure:
            return self.failure
        if lost := self.lost | (self.expected - set(self.ends)):
            return f"worker lost: {', '.join(sorted(lost))}"
        if users != self.users:
            return f"the number of users was changed from {self.users} to {users} during the test"
        reasons = {end["incomplete_reason"] for end in self.ends.values() if end["incomplete_reason"]}
        sent = sum(end["counts"]["measure"] + end["counts"]["drain"] for end in self.ends.values())
        written = self.capture.counts["measure"] + self.capture.counts["drain"]
        if sent != written:
            return f"workers sent {sent} records, {written} were written"
        return "; ".join(sorted(reasons)) or None

    @property
    def failed(self) -> bool:
        """Whether a measured request failed, or records may be missing."""
        return bool(self.failure or self.lost or self.expected - set(self.ends)) or any(
            end["failed"] for end in self.ends.values()
        )
