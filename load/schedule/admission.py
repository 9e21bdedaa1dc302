"""Decides who may send next, and when: warm-up, its barrier, closed and open loops, steps and levels, the end.

Users wait on events and never poll, so that a waiting user costs nothing while others stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import gevent
from gevent.event import Event
from gevent.lock import BoundedSemaphore

from load.conversation import admitted
from load.options import TRACE
from load.schedule.capacity import CapacitySteps
from load.schedule.sweep import Step, Steps, Sweep
from load.schedule.tickets import Prompts, Shard, Ticket, arrivals
from records import Phase
from workloads import Prompt

ALL_ADMITTED = "all admitted"


class Admission:
    """Hands out tickets to users, each of which is given back with `done()`.

    A ticket is for one request, or for one conversation with all its turns.
    """

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
        """`on_measure` is called when measuring begins; `on_idle` when closed and all tickets are returned."""
        self._options, self._kind, self._prompts, self._shard, self._users = options, kind, prompts, shard, users
        self._on_measure, self._on_idle = on_measure, on_idle
        self._warm_open = self._warm_left = shard.share(options.warmup)
        self._warm_done, self._all_arrived, self._go = Event(), Event(), Event()
        self._go.set()
        self._on_warm: Callable[[], None] | None = None
        self._stopping = Event()
        self.cut = Event()
        """Set where the test ends before all was asked: conversations then end with the turn in flight."""
        self._arrived = 0
        self._turn = BoundedSemaphore(1)
        self._source: Iterator[tuple[Prompt, int]] = iter(())
        self._due: Iterator[int] | None = None
        self.admitted = self.tickets_out = 0
        self.closed = False
        self.stop_reason: str | None = None
        self.all_arrived_ns: int | None = None
        self.measure_start_ns: int | None = None
        self.measure_end_ns: int | None = None
        self.sweep: Steps | None = None
        if kind in ("sweep", "capacity"):
            self.sweep = Sweep(options, shard) if kind == "sweep" else CapacitySteps(options, shard)
        self.on_level_over: Callable[[], None] = lambda: self.begin_level(None)
        """Called when all requests of a level of a capacity search have ended."""

    @property
    def limit(self) -> int | None:
        """Number of measured tickets of this process (in a sweep: of each step); None if only the clock ends it."""
        if number := admitted(self._options):
            return self._shard.share(number)
        if self._options.duration or self._kind == "capacity":
            return None
        return len(self._prompts.measured) * (1 if self.sweep else self._options.samples)

    @property
    def required(self) -> int | None:
        """Total number of measured tickets that this process must have by now; None if only the clock ends it."""
        limit = self.limit
        return limit if limit is None or self.sweep is None else limit * self.sweep.begun

    @property
    def is_last_lap(self) -> bool:
        """Whether the full load has ended: all requests are admitted, and one of them has ended."""
        return self.closed and (self._kind == "open" or self.tickets_out < self._users())

    def wait_for_others(self, on_warm: Callable[[], None]) -> None:
        """Delay measuring until `go()`; `on_warm` is called once this process is ready."""
        self._go.clear()
        self._on_warm = on_warm
        if self._kind == "ramp" and not self._warm_left:
            # The first user of this process may come long after those of others, which need not wait for it.
            self._tell_warm()

    def go(self) -> None:
        """All processes are warm: measure."""
        self._go.set()

    # -- for the director of a capacity search -------------------------------------------------------------------------

    def end_level(self) -> None:
        """Admit no more requests to the current level."""
        step = self._step
        if step is None or step.used_up:
            return
        step.used_up = True
        if not self.tickets_out and not self.closed:
            self._next_step()

    def begin_level(self, level: float | None) -> None:
        """Go to a level; None ends the test."""
        if level is None or not isinstance(self.sweep, CapacitySteps):
            self.close()
        elif not self.closed:
            self.sweep.go_to(level)
            self._start_step(self.sweep)

    # -- for users ----------------------------------------------------------------------------------------------------

    def arrive(self) -> None:
        """A user has joined; measuring begins when all have joined and the warm-up has ended."""
        self._arrived += 1
        if self._arrived >= self._users():
            self.all_arrived_ns = self.all_arrived_ns or time.monotonic_ns()
            self._all_arrived.set()

    def next(self, user: int) -> Ticket | None:
        """Wait for this user's next ticket; None once there is nothing more to send."""
        if self._warm_open > 0 and not self.closed:
            self._warm_open -= 1
            return Ticket(self._prompts.warmup(), 0, Phase.WARMUP)
        self._pass_barrier()
        while not self.closed:
            step = self._step
            if self.sweep and self.sweep.holds_back(user):
                self.sweep.current.over.wait()
            elif self._due is None:
                if ticket := self._draw(None, user):
                    return ticket
            else:
                # One user at a time waits for the next arrival; the others queue behind it.
                with self._turn:
                    if not self.closed and (step is None or not (step.used_up or step.over.is_set())):
                        ticket = self._draw_when_due(user)
                        if ticket is not None:
                            return ticket
        return None

    def done(self, ticket: Ticket) -> None:
        """Return a ticket: its request has ended in any way."""
        if ticket.phase is Phase.WARMUP:
            self._warm_left -= 1
            if not self._warm_left:
                self._warm_done.set()
            return
        self.tickets_out -= 1
        if step := self._step:
            step.ended += 1
            if step.used_up and not self.tickets_out:
                self._next_step()
        if self.closed and not self.tickets_out:
            self._on_idle()

    def close(self, reason: str = ALL_ADMITTED) -> None:
        """Admit no more requests. The first reason other than the regular end stays."""
        if reason != ALL_ADMITTED and self.stop_reason is None:
            self.stop_reason = reason
            self.cut.set()
        if not self.closed:
            self.closed = True
            self.measure_end_ns = time.monotonic_ns()
        for event in (self._warm_done, self._all_arrived, self._go, self._stopping):
            event.set()
        if self.sweep:
            self.sweep.release()
        if not self.tickets_out:
            self._on_idle()

    def close_on_time(self) -> None:
        """Wait for the end of a timed window on the monotonic clock and close, even if no user asks at that time.

        Locust's own -t runs on the cached clock of the event loop and can end early.
        """
        while self.measure_start_ns is None and not self.closed:
            gevent.sleep(0.01)
        while not self.closed:
            left = ((self._window_end_ns() or 0) - time.monotonic_ns()) / 1e9
            if left <= 0:
                self.close()
                return
            gevent.sleep(min(left, 0.2))

    # -- inside -------------------------------------------------------------------------------------------------------

    def _pass_barrier(self) -> None:
        if self.measure_start_ns is not None or self.closed:
            return
        if not self._warm_left:
            self._warm_done.set()
        self._warm_done.wait()
        if self._kind != "ramp":
            self._all_arrived.wait()
        self._tell_warm()
        self._go.wait()
        if self.measure_start_ns is None and not self.closed:
            self._on_measure()
            self.measure_start_ns = time.monotonic_ns()
            once = not admitted(self._options) and not self._options.duration and not self.sweep
            self._source = self._prompts.once(self._options.samples) if once else self._prompts.forever()
            if self.sweep:
                self._start_step(self.sweep)
            elif self._kind == "open":
                self._start_arrivals(self._options.rate, self.measure_start_ns)

    def _tell_warm(self) -> None:
        tell, self._on_warm = self._on_warm, None
        if tell and not self.closed:
            tell()

    def _start_arrivals(self, rate: float, base_ns: int, number: int = 0) -> None:
        if self._options.arrivals == TRACE:
            # In the order in which `_source` gives the prompts; workers have every n-th of them.
            self._source = self._prompts.once(1)
            self._due = (base_ns + int((prompt.at_s or 0.0) * 1e9) for prompt in self._prompts.measured)
            return
        # Workers and steps must share neither a schedule nor random numbers.
        seed = (int(self._options.seed) * 1009 + self._shard.index) * 1009 + number
        due = arrivals(self._options.arrivals, rate / self._shard.count, self._options.burstiness, seed)
        # Each worker begins a little later: constant schedules that all begin at once would send bursts.
        begin = self._shard.index / rate
        self._due = (base_ns + int((begin + at) * 1e9) for at in due)

    @property
    def _step(self) -> Step | None:
        return self.sweep.current if self.sweep else None

    def _window_end_ns(self) -> int | None:
        """The end of the requested duration (in a sweep: of this step)."""
        if not self._options.duration:
            return None
        step = self._step
        begun = step.start_ns if step else self.measure_start_ns
        return (begun or 0) + int(self._options.duration * 1e9)

    def _draw(self, due_ns: int | None, user: int) -> Ticket | None:
        step = self._step
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
        level = self.sweep.evidence_of(user, at) if self.sweep else None
        return Ticket(drawn[0], drawn[1], Phase.MEASURE, due_ns, level)

    def _draw_when_due(self, user: int) -> Ticket | None:
        assert self._due is not None
        step = self._step
        due_ns = next(self._due, None)
        if due_ns is None:  # a trace is shorter than the time that was asked for
            self._use_up(step)
            return None
        end_ns = self._window_end_ns()
        until = due_ns if end_ns is None else min(due_ns, end_ns)
        while (left := until - time.monotonic_ns()) > 0:
            if (step.over if step else self._stopping).wait(left / 1e9):
                return None
        return None if step and step.used_up else self._draw(due_ns, user)

    def _use_up(self, step: Step | None) -> None:
        if step is None:
            self.close()
            return
        step.used_up = True
        if not self.tickets_out and not step.over.is_set():
            self._next_step()

    def _start_step(self, sweep: Steps) -> None:
        step = sweep.begin()
        if self._options.step_by == "rate":
            self._start_arrivals(step.level, step.start_ns or 0, sweep.at)
        elif not sweep.takes_part(0):
            # Fewer users than workers: this worker has none in this step.
            step.used_up = True
            self._next_step()

    def _next_step(self) -> None:
        """Go to the next step: all requests of the current one were sent and have ended."""
        assert self.sweep is not None
        more = self.sweep.end()
        if isinstance(self.sweep, Sweep):
            if more and not self.closed:
                self.sweep.advance()
                self._start_step(self.sweep)
            else:
                self.close()
        elif not self.closed:
            self.on_level_over()
