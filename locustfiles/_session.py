"""One test from start to stop: hands out tickets, keeps the phases apart, collects records, and knows when it is over."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gevent
from gevent.event import Event
from locust.runners import WorkerRunner

from locustfiles import _hooks
from locustfiles._capture import Capture, CaptureError, utc_now
from locustfiles._health import Health
from locustfiles._options import UsageError, capture_dir, check, target
from locustfiles._tickets import Prompts, Shard, Ticket, arrivals
from locustfiles._understand import Exchange, understand
from records import Phase, Record
from scoring.tasks import TaskError, load_prompts

log = logging.getLogger("enginebench")

DECODE_SLICE_NS = 300_000
"""How long decoding may hold the event loop before it lets arriving bytes be stamped."""
DECODE_BACKLOG = 512


@dataclass(slots=True)
class Step:
    """One level of a sweep: how many users take part, or how many requests a second arrive; and its time."""

    level: float
    start_ns: int | None = None
    end_ns: int | None = None


class Session:
    """What the users of one process share during one test. Made at `test_start`, closed after `test_stop`."""

    def __init__(self, environment: Any, scenario: str, kind: str, shard: Shard) -> None:
        """Prepare a test.

        Raises:
            UsageError: options or prompts that cannot be used.
        """
        options = environment.parsed_options
        self.environment, self.options, self.scenario, self.kind = environment, options, scenario, kind
        self.extras = check(options)
        self.target = target(environment.host or options.host)
        self.shard = shard
        self.workload = Path(options.prompts).stem if options.prompts.endswith(".jsonl") else options.prompts
        self.cell = options.cell or f"{scenario}.{self.workload}"
        try:
            prompts = load_prompts(options.prompts, seed=options.seed)
            self.prompts = Prompts(prompts, warmup=options.warmup, shard=shard)
        except (TaskError, ValueError) as error:
            raise UsageError(f"--prompts: {error}") from None
        self.id = os.urandom(4).hex()
        self.worker = f"{os.uname().nodename}-{os.getpid()}" if shard.count > 1 else "local"
        self.health = Health()
        try:
            # A worker's records are written by the master.
            path = None if isinstance(environment.runner, WorkerRunner) else capture_dir(options)
            self.capture = Capture(path, append=options.append)
        except CaptureError as error:
            raise UsageError(f"--capture-dir {error}") from None
        self._sink = self.capture.write
        self._decode_queue: deque[tuple[Exchange, Phase]] = deque()
        self._decode_wake = Event()
        self._room = Event()
        self._room.set()
        self._decoder = gevent.spawn(self._decode_forever)
        self._decoder.link_exception(self._failed)
        self._arrived = 0
        self._all_arrived = Event()
        self._warm_left = self._warm_open = shard.share(options.warmup)
        self._warm_done = Event()
        self.measured_in_flight = 0
        self.admitted = self.finished = 0
        self.closed = False
        self.over = Event()
        self.failure: str | None = None
        self.stop_reason: str | None = None
        self.measure_start_ns: int | None = None
        self.measure_end_ns: int | None = None
        self.started_utc = utc_now()
        self.steps = [Step(float(step)) for step in options.steps.split(",")] if kind == "sweep" else []
        self._step = -1
        self.health.start()
        self._write_scenario()

    # -- tickets ----------------------------------------------------------------------------------------------------

    @property
    def users(self) -> int:
        """The users that this process should have."""
        return int(self.environment.runner.target_user_count)

    @property
    def limit(self) -> int | None:
        """How many measured requests this process owes; None where only the clock ends it."""
        if self.kind == "sweep":
            each = self.options.requests or len(self.prompts.measured)
            return each * (self._step + 1)
        if self.options.requests:
            return self.shard.share(self.options.requests)
        return None if self.options.duration else len(self.prompts.measured) * self.options.samples

    def next(self, user: int) -> Ticket | None:
        """Wait for this user's next ticket; None once there is nothing more to send."""
        if self._warm_open > 0:
            self._warm_open -= 1
            return Ticket(self.prompts.warmup(), 0, Phase.WARMUP)
        self._barrier()
        self._room.wait()
        if self.closed:
            return None
        if self._step_is_used_up():
            self._await_step()
            if self.closed:
                return None
        if self.steps and self.options.step_by == "users" and user >= self.steps[self._step].level:
            # Not this user's turn in this step.
            step = self._step
            while not self.closed and self._step == step and not self._step_is_used_up():
                gevent.sleep(0.01)
            return self.next(user)
        ticket = self._draw()
        if ticket is None or not self._wait_until_due(ticket):
            self.close("all admitted")
            return None
        return ticket

    def arrive(self) -> None:
        """A user is there; measuring begins when all are and the warm-up is done."""
        self._arrived += 1
        if self._arrived >= self.users:
            self._all_arrived.set()

    def _barrier(self) -> None:
        if self.measure_start_ns is not None:
            return
        if not self._warm_left:
            self._warm_done.set()
        self._warm_done.wait()
        if self.kind != "ramp":
            self._all_arrived.wait()
        if self.measure_start_ns is None and not self.closed:
            self.health.start()
            self.measure_start_ns = time.monotonic_ns()
            self._begin_source()

    def _begin_source(self) -> None:
        options = self.options
        once = not options.requests and not options.duration
        self._source = self.prompts.once(options.samples) if once and not self.steps else self.prompts.forever()
        self._due = None
        if self.kind == "open":
            self._due = arrivals(options.arrivals, options.rate / self.shard.count, options.burstiness, self._seed())
            self._due_base = self.measure_start_ns
        if self.steps:
            self._start_step()

    def _seed(self) -> int:
        # Workers must not share a schedule, nor a stream of random numbers.
        return int(self.options.seed) * 1009 + self.shard.index

    def _draw(self) -> Ticket | None:
        limit, options = self.limit, self.options
        if limit is not None and self.admitted >= limit:
            return None
        if not self.prompts.measured:
            return None
        assert self.measure_start_ns is not None
        drawn = next(self._source, None)
        if drawn is None:
            return None
        due = None
        if self._due is not None:
            due = (self._due_base or 0) + int(next(self._due) * 1e9)
            if options.duration and due > self.measure_start_ns + options.duration * 1e9:
                return None
        elif options.duration and not self.steps:
            if time.monotonic_ns() >= self.measure_start_ns + options.duration * 1e9:
                return None
        self.admitted += 1
        if limit is not None and self.admitted >= limit and not self.steps:
            self.close("all admitted")
        return Ticket(drawn[0], drawn[1], Phase.MEASURE, due)

    def _wait_until_due(self, ticket: Ticket) -> bool:
        """Sleep until a ticket's time; False if a stop came first."""
        while ticket.due_ns is not None and (left := ticket.due_ns - time.monotonic_ns()) > 0:
            if self.stop_reason:
                self.admitted -= 1
                return False
            gevent.sleep(min(left / 1e9, 0.05))
        return True

    # -- sweep ------------------------------------------------------------------------------------------------------

    def _step_is_used_up(self) -> bool:
        limit = self.limit
        return bool(self.steps) and limit is not None and self.admitted >= limit

    def _start_step(self) -> None:
        self._step += 1
        step = self.steps[self._step]
        step.start_ns = time.monotonic_ns()
        if self.options.step_by == "rate":
            rate = step.level / self.shard.count
            self._due = arrivals(self.options.arrivals, rate, self.options.burstiness, self._seed() + self._step)
            self._due_base = step.start_ns

    def _await_step(self) -> None:
        """Wait until all of this step has ended, then begin the next; after the last one, close."""
        step = self._step
        while self.measured_in_flight and not self.closed:
            gevent.sleep(0.005)
        if self.closed or self._step != step:
            return
        self.steps[step].end_ns = time.monotonic_ns()
        if step + 1 < len(self.steps):
            self._start_step()
        else:
            self.close("all admitted")

    # -- ends -------------------------------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """Admit nothing more. The first call's reason stays."""
        if not self.closed:
            self.closed = True
            self.measure_end_ns = time.monotonic_ns()
        for event in (self._warm_done, self._all_arrived, self._room):
            event.set()
        if reason != "all admitted" and self.stop_reason is None:
            self.stop_reason = reason
        self._look_if_over()

    def _look_if_over(self) -> None:
        if self.closed and not self.measured_in_flight and not self._decode_queue:
            self.over.set()

    def sent(self, ticket: Ticket) -> None:
        if ticket.phase is not Phase.WARMUP:
            self.measured_in_flight += 1

    def ended(self, exchange: Exchange) -> None:
        """Take a request that has ended; it is understood and written a little later, between arrivals."""
        phase = exchange.ticket.phase
        if phase is Phase.WARMUP:
            self._warm_left -= 1
            if not self._warm_left:
                self._warm_done.set()
        else:
            # The first to end after the last was admitted ends the steady window; those after it are drain.
            if self.closed and self.measured_in_flight < self.users:
                phase = Phase.DRAIN
            self.measured_in_flight -= 1
        self._decode_queue.append((exchange, phase))
        self._decode_wake.set()
        if len(self._decode_queue) > DECODE_BACKLOG:
            self._room.clear()

    # -- records ----------------------------------------------------------------------------------------------------

    def _decode_forever(self) -> None:
        while True:
            self._decode_wake.wait()
            self._decode_wake.clear()
            while self._decode_queue:
                exchange, phase = self._decode_queue[0]
                self._decode_one(exchange, phase)
                self._decode_queue.popleft()
                if len(self._decode_queue) < DECODE_BACKLOG // 2:
                    self._room.set()
                self._look_if_over()

    def _decode_one(self, exchange: Exchange, phase: Phase) -> None:
        slice_end = time.monotonic_ns() + DECODE_SLICE_NS
        record: Record | None = None
        for record in understand(exchange, self, phase):
            if time.monotonic_ns() > slice_end:
                gevent.sleep(0)
                slice_end = time.monotonic_ns() + DECODE_SLICE_NS
        assert record is not None
        self.keep(record)
        if not record.ok and self.options.keep_raw and exchange.reply is not None:
            self.capture.keep_raw(record, exchange.reply.pieces)
        _hooks.fire(self.environment, record)

    def send_records_with(self, sink: Callable[[Record], None]) -> None:
        """Replace what takes the records (a worker sends them to its master)."""
        self._sink = sink

    def keep(self, record: Record) -> None:
        """Write a record down, and count it."""
        try:
            self._sink(record)
        except CaptureError as error:
            self._failed_with(str(error))
        if record.measured:
            self.finished += 1

    def _failed(self, greenlet: gevent.Greenlet) -> None:
        self._failed_with(f"the decoder failed: {greenlet.exception!r}")

    def _failed_with(self, message: str) -> None:
        if self.failure is None:
            self.failure = message
            log.error(message)
            self._decode_queue.clear()
            self.close(message)
            self.over.set()

    def finish(self) -> None:
        """After the users have stopped: understand what is left, and write how it came out."""
        while self._decode_queue and self.failure is None:
            gevent.sleep(0.001)
        self._decoder.kill(block=False)
        self.health.stop()
        try:
            self._write_scenario(ended=True)
        except CaptureError as error:
            self.failure = self.failure or str(error)
            log.error("%s", error)
        self.capture.close()

    @property
    def incomplete_reason(self) -> str | None:
        """Why this is not all that was asked for; None where it is."""
        if self.failure:
            return self.failure
        if self.stop_reason:
            return self.stop_reason
        limit = self.limit
        if limit is not None and self.finished < limit:
            return f"{self.finished} of {limit} measured requests"
        return None

    def describe(self, *, ended: bool) -> dict[str, Any]:
        """The fields of scenario.json but for the counts."""
        options = self.options
        reason = self.incomplete_reason if ended else "not ended"
        return {
            "engine": options.engine,
            "cell": self.cell,
            "scenario": self.scenario,
            "workload": self.workload,
            "round": options.round,
            "asked": {
                "users": self.users if self.environment.runner else None,
                "rate": options.rate if self.kind == "open" else None,
                "arrivals": options.arrivals if self.kind == "open" else None,
                "burstiness": options.burstiness if self.kind == "open" else None,
                "steps": options.steps if self.kind == "sweep" else None,
                "requests": options.requests or (None if options.duration else self.prompts.total * options.samples),
                "duration_s": options.duration or None,
                "warmup": options.warmup,
                "max_tokens": options.max_tokens,
                "fixed_length": options.fixed_length,
                "samples": options.samples,
                "seed": options.seed,
                "model": options.model or None,
                "request_extras": self.extras,
                "shape": self.kind,
            },
            "started_utc": self.started_utc,
            "ended_utc": utc_now() if ended else None,
            "measure_start_ns": self.measure_start_ns,
            "measure_end_ns": self.measure_end_ns,
            "steps": [{"level": s.level, "start_ns": s.start_ns, "end_ns": s.end_ns} for s in self.steps],
            "client": self.health.summary() if ended else None,
            "workers": [],
            "complete": ended and reason is None,
            "incomplete_reason": reason,
        }

    def _write_scenario(self, *, ended: bool = False) -> None:
        self.capture.write_scenario(**self.describe(ended=ended))
