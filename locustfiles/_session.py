"""One test from start to stop: what its users share, how their requests become records, and when it is over."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
from gevent.event import Event
from gevent.hub import get_hub
from locust.runners import WorkerRunner

from locustfiles import _hooks
from locustfiles._admission import Admission
from locustfiles._capture import Capture, CaptureError, utc_now
from locustfiles._health import Health
from locustfiles._options import UsageError, capture_dir, check, target
from locustfiles._tickets import Prompts, Shard, Ticket
from locustfiles._understand import Exchange, understand
from records import Phase, Record
from scoring.tasks import TaskError, load_prompts

log = logging.getLogger("enginebench")

DECODE_SLICE_NS = 300_000
"""How long decoding may hold the event loop before it lets arriving bytes be stamped."""
DECODE_BACKLOG = 512
DECODE_PATIENCE = 128
"""Up to so many requests wait for an idle event loop before they are decoded; more take turns with what arrives."""


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
        self._sink: Callable[[Record], None] = self.capture.write
        self._decode_queue: deque[tuple[Exchange, Phase]] = deque()
        self._decode_wake = Event()
        self._slice_end = 0
        self._room = Event()
        self._room.set()
        self._decoder = gevent.spawn(self._decode_forever)
        self._decoder.link_exception(self._failed)
        self.admission = Admission(
            options,
            kind,
            self.prompts,
            shard,
            lambda: self.users,
            on_measure=self.health.start,
            on_idle=self._look_if_over,
        )
        self.finished = self.failed = 0
        self.over = Event()
        self.stopping = False
        self.failure: str | None = None
        self.started_utc = utc_now()
        self.health.start()
        self._write_scenario()

    @property
    def users(self) -> int:
        """The users that this process should have."""
        return int(self.environment.runner.target_user_count)

    def next(self, user: int) -> Ticket | None:
        """Wait for this user's next ticket; None once there is nothing more to send."""
        self._room.wait()
        return self.admission.next(user)

    def close(self, reason: str) -> None:
        """Admit nothing more, before all was asked. The first call's reason stays."""
        self.admission.close(reason)
        self._room.set()

    def _look_if_over(self) -> None:
        if self.admission.closed and not self.admission.tickets_out and not self._decode_queue:
            self.over.set()

    def ended(self, exchange: Exchange) -> None:
        """Take a request that has ended; it is understood and written a little later, between arrivals."""
        phase = exchange.ticket.phase
        if phase is not Phase.WARMUP and self.admission.is_last_lap:
            phase = Phase.DRAIN
        self._decode_queue.append((exchange, phase))
        self._decode_wake.set()
        if len(self._decode_queue) > DECODE_BACKLOG:
            self._room.clear()

    # -- records ----------------------------------------------------------------------------------------------------

    def _decode_forever(self) -> None:
        while True:
            self._decode_wake.wait()
            self._decode_wake.clear()
            self._let_io_pass()
            while self._decode_queue and self.failure is None:
                exchange, phase = self._decode_queue[0]
                self._decode_one(exchange, phase)
                self._decode_queue.popleft()
                if len(self._decode_queue) < DECODE_BACKLOG // 2:
                    self._room.set()
                self._look_if_over()

    def _let_io_pass(self) -> None:
        """Let everything that has arrived be stamped, then begin another slice of decoding.

        Not by `gevent.sleep(0)`: the loop runs dozens of such wake-ups before it looks at its sockets again.
        """
        loop = get_hub().loop
        get_hub().wait(loop.idle() if len(self._decode_queue) < DECODE_PATIENCE else loop.timer(0.0))
        self._slice_end = time.monotonic_ns() + DECODE_SLICE_NS

    def _decode_one(self, exchange: Exchange, phase: Phase) -> None:
        record: Record | None = None
        for record in understand(exchange, self, phase):  # noqa: B007 - the last one is whole
            if time.monotonic_ns() > self._slice_end:
                self._let_io_pass()
        assert record is not None
        self.keep(record, exchange)
        if not record.ok and self.options.keep_raw and exchange.reply is not None:
            self.capture.keep_raw(record, exchange.reply.raw or [])
        _hooks.fire(self.environment, record)

    def send_records_with(self, sink: Callable[[Record], None]) -> None:
        """Replace what takes the records (a worker sends them to its master)."""
        self._sink = sink

    def keep(self, record: Record, exchange: Exchange) -> None:
        """Write a record down, and count it."""
        try:
            self._sink(record)
        except CaptureError as error:
            self.fail(str(error))
        # An attempt that is asked again is an error in the figures, but the request is not over.
        if record.measured and not exchange.retried:
            self.finished += 1
            self.failed += not record.ok

    def _failed(self, greenlet: gevent.Greenlet[..., Any]) -> None:
        self.fail(f"the decoder failed: {greenlet.exception!r}")

    def fail(self, message: str) -> None:
        """End the test at once, as one that cannot be trusted to be whole. The first message stays."""
        if self.failure is None:
            self.failure = message
            log.error(message)
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
        if self.admission.stop_reason:
            return self.admission.stop_reason
        owed = self.admission.owed
        if owed is not None and self.finished < owed:
            return f"{self.finished} of {owed} measured requests"
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
            "measure_start_ns": self.admission.measure_start_ns,
            "measure_end_ns": self.admission.measure_end_ns,
            "steps": [step.to_dict() for step in self.admission.steps],
            "saturated_at": self.admission.saturated_at,
            "client": self.health.summary() if ended else None,
            "workers": [],
            "complete": ended and reason is None,
            "incomplete_reason": reason,
        }

    def _write_scenario(self, *, ended: bool = False) -> None:
        self.capture.write_scenario(**self.describe(ended=ended))
