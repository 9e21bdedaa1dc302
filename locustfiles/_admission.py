"""Who may send next, and when: warm-up, the barrier behind it, closed and open loops, the steps of a sweep, the end.

Users wait here on events, never by looking again and again, so that a waiting user costs nothing while others stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import gevent
from gevent.event import Event
from gevent.lock import BoundedSemaphore

from locustfiles._tickets import Prompts, Shard, Ticket, arrivals
from records import Phase
from scoring.tasks import Prompt

ALL_ADMITTED = "all admitted"
GROWTH = 1.05
"""A step of a sweep whose throughput is less than this times the best one before it did not gain anything."""


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


class Admission:
    """Hands out tickets to users, each of which is given back with `done()`."""

    def __init__(
        self,
        options: Any,
        kind: str,
        prompts: Prompts,
        shard: Shard,
        users: Callable[[], int],
        *,
        on_measure: Callable[[], None],
        on_idle: Callable[[], None],
    ) -> None:
        """`on_measure` is called when measuring begins; `on_idle` when it is closed and no ticket is out."""
        self._options, self._kind, self._prompts, self._shard, self._users = options, kind, prompts, shard, users
        self._on_measure, self._on_idle = on_measure, on_idle
        self._warm_open = self._warm_left = shard.share(options.warmup)
        self._warm_done, self._all_arrived = Event(), Event()
        self._stopping = Event()
        self._arrived = 0
        self._turn = BoundedSemaphore(1)
        self._source: Iterator[tuple[Prompt, int]] = iter(())
        self._due: Iterator[float] | None = None
        self._due_base = 0
        self.admitted = self.tickets_out = 0
        self.closed = False
        self.stop_reason: str | None = None
        self.saturated_at: float | None = None
        self.measure_start_ns: int | None = None
        self.measure_end_ns: int | None = None
        self.steps = [Step(float(level)) for level in options.steps.split(",")] if kind == "sweep" else []
        self._at = 0

    @property
    def limit(self) -> int | None:
        """Measured requests that this process owes (in a sweep: each step); None where only the clock ends it."""
        if self._options.requests:
            return self._shard.share(self._options.requests)
        if self._options.duration:
            return None
        return len(self._prompts.measured) * (1 if self.steps else self._options.samples)

    @property
    def owed(self) -> int | None:
        """All measured requests that this process owed by now; None where only the clock ends it."""
        limit = self.limit
        if limit is None or not self.steps:
            return limit
        return sum(limit for step in self.steps if step.start_ns is not None and self._takes_part(0, step))

    @property
    def is_last_lap(self) -> bool:
        """Whether the asked load is not kept up any more: all are admitted, and one of them has ended."""
        return self.closed and (self._kind == "open" or self.tickets_out < self._users())

    # -- for users ----------------------------------------------------------------------------------------------------

    def arrive(self) -> None:
        """A user is there; measuring begins when all are and the warm-up is done."""
        self._arrived += 1
        if self._arrived >= self._users():
            self._all_arrived.set()

    def next(self, user: int) -> Ticket | None:
        """Wait for this user's next ticket; None once there is nothing more to send."""
        if self._warm_open > 0 and not self.closed:
            self._warm_open -= 1
            return Ticket(self._prompts.warmup(), 0, Phase.WARMUP)
        self._pass_barrier()
        while not self.closed:
            step = self.steps[self._at] if self.steps else None
            if step is not None and (step.used_up or not self._takes_part(user, step)):
                step.over.wait()
            elif self._due is None:
                if ticket := self._draw(None):
                    return ticket
            else:
                # One user at a time waits for the next arrival; the others wait for their turn behind it.
                with self._turn:
                    if not self.closed and (step is None or not (step.used_up or step.over.is_set())):
                        ticket = self._draw_when_due()
                        if ticket is not None:
                            return ticket
        return None

    def done(self, ticket: Ticket) -> None:
        """Give a ticket back: its request has ended, whichever way."""
        if ticket.phase is Phase.WARMUP:
            self._warm_left -= 1
            if not self._warm_left:
                self._warm_done.set()
            return
        self.tickets_out -= 1
        if self.steps:
            step = self.steps[self._at]
            step.ended += 1
            if step.used_up and not self.tickets_out:
                self._next_step()
        if self.closed and not self.tickets_out:
            self._on_idle()

    def close(self, reason: str = ALL_ADMITTED) -> None:
        """Admit nothing more. The first reason other than the regular end stays."""
        if reason != ALL_ADMITTED and self.stop_reason is None:
            self.stop_reason = reason
        if not self.closed:
            self.closed = True
            self.measure_end_ns = time.monotonic_ns()
        for event in (self._warm_done, self._all_arrived, self._stopping, *(step.over for step in self.steps)):
            event.set()
        if not self.tickets_out:
            self._on_idle()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _pass_barrier(self) -> None:
        if self.measure_start_ns is not None or self.closed:
            return
        if not self._warm_left:
            self._warm_done.set()
        self._warm_done.wait()
        if self._kind != "ramp":
            self._all_arrived.wait()
        if self.measure_start_ns is None and not self.closed:
            self._on_measure()
            self.measure_start_ns = time.monotonic_ns()
            once = not self._options.requests and not self._options.duration and not self.steps
            self._source = self._prompts.once(self._options.samples) if once else self._prompts.forever()
            if self.steps:
                self._start_step()
            elif self._kind == "open":
                self._start_arrivals(self._options.rate, self.measure_start_ns)

    def _start_arrivals(self, rate: float, base_ns: int) -> None:
        # Workers and steps must not share a schedule, nor a stream of random numbers.
        seed = (int(self._options.seed) * 1009 + self._shard.index) * 1009 + self._at
        self._due = arrivals(self._options.arrivals, rate / self._shard.count, self._options.burstiness, seed)
        self._due_base = base_ns

    def _takes_part(self, user: int, step: Step) -> bool:
        return self._options.step_by == "rate" or user < self._shard.share(int(step.level))

    def _window_end_ns(self) -> int | None:
        """When the asked duration (in a sweep: of this step) is over."""
        if not self._options.duration:
            return None
        begun = self.steps[self._at].start_ns if self.steps else self.measure_start_ns
        return (begun or 0) + int(self._options.duration * 1e9)

    def _draw(self, due_ns: int | None) -> Ticket | None:
        step = self.steps[self._at] if self.steps else None
        limit, end_ns = self.limit, self._window_end_ns()
        given = step.admitted if step else self.admitted
        at = time.monotonic_ns() if due_ns is None else due_ns
        drawn = None
        if (limit is None or given < limit) and (end_ns is None or at < end_ns):
            drawn = next(self._source, None)
        if drawn is None:
            self._use_up(step)
            return None
        self.admitted += 1
        self.tickets_out += 1
        if step:
            step.admitted += 1
        if limit is not None and given + 1 >= limit:
            self._use_up(step)
        return Ticket(drawn[0], drawn[1], Phase.MEASURE, due_ns)

    def _draw_when_due(self) -> Ticket | None:
        assert self._due is not None
        due_ns = self._due_base + int(next(self._due) * 1e9)
        end_ns = self._window_end_ns()
        until = due_ns if end_ns is None else min(due_ns, end_ns)
        while (left := until - time.monotonic_ns()) > 0:
            if self._stopping.wait(left / 1e9):
                return None
        return self._draw(due_ns)

    def _use_up(self, step: Step | None) -> None:
        if step is None:
            self.close()
            return
        step.used_up = True
        if not self.tickets_out and not step.over.is_set():
            self._next_step()

    def _start_step(self) -> None:
        step = self.steps[self._at]
        step.start_ns = time.monotonic_ns()
        if self._options.step_by == "rate":
            self._start_arrivals(step.level, step.start_ns)
        elif not self._takes_part(0, step):
            # Fewer users than workers: this worker has none in this step.
            step.used_up = True
            self._next_step()

    def _next_step(self) -> None:
        """Go on: the current step has used up its requests, and all of them have ended."""
        step = self.steps[self._at]
        step.end_ns = time.monotonic_ns()
        best = max((before.requests_s or 0.0 for before in self.steps[: self._at]), default=0.0)
        if self.saturated_at is None and (step.requests_s or 0.0) < best * GROWTH:
            self.saturated_at = step.level
        stop = self._options.stop_at_saturation and self.saturated_at is not None
        if self._at + 1 == len(self.steps) or stop or self.closed:
            self.close()
            return
        self._at += 1
        step.over.set()
        self._start_step()


def close_on_time(admission: Admission) -> None:
    """End a timed window on the monotonic clock, also where no user asks for a ticket just then.

    Locust's own -t runs on the cached clock of the event loop and can end early.
    """
    while admission.measure_start_ns is None and not admission.closed:
        gevent.sleep(0.01)
    while not admission.closed:
        end_ns = (admission.measure_start_ns or 0) + admission._options.duration * 1e9
        left = (end_ns - time.monotonic_ns()) / 1e9
        if left <= 0:
            admission.close()
            return
        gevent.sleep(min(left, 0.2))
