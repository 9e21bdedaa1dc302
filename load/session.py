"""One test from start to stop: what its users share, how their requests become records, and when it is over."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

from gevent.event import Event
from locust.runners import WorkerRunner

from load import hooks
from load.capture import Capture, CaptureError, utc_now
from load.decode_queue import Decoding
from load.describe import describe
from load.health import Health
from load.options import UsageError, capture_dir, check, target
from load.record_builder import Exchange, hide_secrets, understand
from load.schedule.admission import Admission
from load.schedule.tickets import Prompts, Shard, Ticket
from records import Phase, Record, workload_name
from workloads import TaskError, load_prompts

log = logging.getLogger("enginebench")


class Session:
    """What the users of one process share during one test. Made at `test_start`, closed after `test_stop`."""

    def __init__(self, environment: Any, scenario: str, kind: str, shard: Shard) -> None:
        """Prepare a test.

        Raises:
            UsageError: options or prompts that cannot be used.
        """
        options = environment.parsed_options
        self.environment, self.options, self.scenario, self.kind = environment, options, scenario, kind
        self.extras = check(options, kind)
        self.target = target(environment.host or options.host)
        self.shard = shard
        self.workload = options.workload or workload_name(options.prompts)
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
        self._decoding = Decoding(
            lambda exchange, phase: understand(exchange, self, phase),
            keep=self._keep,
            on_done=self._look_if_over,
            on_failure=self.fail,
        )
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
        self._decoding.wait_for_room()
        return self.admission.next(user)

    def close(self, reason: str) -> None:
        """Admit nothing more, before all was asked. The first call's reason stays."""
        self.admission.close(reason)
        self._decoding.let_all_go()

    def _look_if_over(self) -> None:
        if self.admission.closed and not self.admission.tickets_out and self._decoding.is_idle:
            self.over.set()

    def ended(self, exchange: Exchange) -> None:
        """Take a request that has ended; it is understood and written a little later, between arrivals."""
        phase = exchange.ticket.phase
        if phase is not Phase.WARMUP and self.admission.is_last_lap:
            phase = Phase.DRAIN
        self._decoding.put(exchange, phase)

    # -- records ----------------------------------------------------------------------------------------------------

    def send_records_with(self, sink: Callable[[Record], None]) -> None:
        """Replace what takes the records (a worker sends them to its master)."""
        self._sink = sink

    def _keep(self, record: Record, exchange: Exchange) -> None:
        """Write a record down, count it, and tell the listeners."""
        hide_secrets(record)
        try:
            self._sink(record)
        except CaptureError as error:
            self.fail(str(error))
        # An attempt that is asked again is an error in the figures, but the request is not over.
        if record.measured and not exchange.retried:
            self.finished += 1
            self.failed += not record.ok
        if not record.ok and self.options.keep_raw and exchange.reply is not None:
            self.capture.keep_raw(record, exchange.reply.raw or [])
        hooks.fire(self.environment, record)

    def fail(self, message: str) -> None:
        """End the test at once, as one that cannot be trusted to be whole. The first message stays."""
        if self.failure is None:
            self.failure = message
            log.error(message)
            self._decoding.stop()
            self.close(message)
            self.over.set()

    def finish(self) -> None:
        """After the users have stopped: understand what is left, and write how it came out."""
        self._decoding.finish()
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

    def _write_scenario(self, *, ended: bool = False) -> None:
        self.capture.write_scenario(**describe(self, ended=ended))
