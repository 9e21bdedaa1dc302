"""Runs one test from start to stop: the state that users share, the path from requests to records, and the end."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
from gevent.event import Event

from load.cancellation import Cancellation
from load.capture import Capture, CaptureError
from load.conversation import check_conversations
from load.decode_queue import Decoding
from load.health import Health
from load.options import UsageError, check, headers_of, target
from load.record_builder import Exchange, Labels, build_record, hide_secrets
from load.request import RequestWriter
from load.scenario_json import asked_fields, process_fields
from load.schedule.admission import Admission
from load.schedule.capacity import Director, director
from load.schedule.tickets import Prompts, Shard, Ticket
from load.schedule.trace import check_trace
from records import Phase, Record, workload_name
from records.headers import resolved
from records.redaction import client_key
from records.utc import utc_now
from workloads import TaskError, load_prompts

log = logging.getLogger("enginebench")


class Session:
    """The state that users of one process share during a test. Created at `test_start`, closed after `test_stop`."""

    def __init__(
        self,
        options: Any,
        scenario: str,
        kind: str,
        shard: Shard,
        *,
        host: str | None,
        users: Callable[[], int],
        capture: Path | None,
        on_record: Callable[[Record], None],
    ) -> None:
        """Prepare a test.

        Args:
            options: the parsed options.
            scenario: its name, for the records.
            kind: the shape of the load, `ChatUser.kind`.
            shard: this process's part of the prompts and counts.
            host: the engine's base URL.
            users: returns the number of users that this process should have; Locust can change it during a test.
            capture: the folder for the records; None if this process does not write them.
            on_record: called with every record, after it is written.

        Raises:
            UsageError: options or prompts that cannot be used.
        """
        self.options, self.users, self._on_record = options, users, on_record
        self.extras = check(options, kind)
        self.target = target(host, options.endpoint)
        headers = headers_of(options)
        self.requests = RequestWriter(
            options, self.target, extras=self.extras, headers=resolved(headers), key=client_key()
        )
        self.cancellation = Cancellation(options.cancel_share, options.cancel_after_tokens, options.seed)
        workload = options.workload or workload_name(options.prompts)
        self.labels = Labels(
            session=os.urandom(4).hex(),
            engine=options.engine,
            cell=options.cell or f"{scenario}.{workload}",
            scenario=scenario,
            workload=workload,
            round=options.round,
            worker=f"{os.uname().nodename}-{os.getpid()}" if shard.count > 1 else "local",
        )
        try:
            all_prompts = load_prompts(options.prompts, seed=options.seed)
            conversations = check_conversations(options, all_prompts)
            prompts = Prompts(all_prompts, warmup=options.warmup, shard=shard)
        except (TaskError, ValueError) as error:
            raise UsageError(f"--prompts: {error}") from None
        check_trace(options, all_prompts)
        if options.cancel_share and any(prompt.graded and prompt.pool != Phase.WARMUP for prompt in all_prompts):
            raise UsageError("--cancel-share: an answer that is cut off cannot be graded; take prompts without gold")
        try:
            self.capture = Capture(capture, append=options.append)
        except CaptureError as error:
            raise UsageError(f"--capture-dir {error}") from None
        self._sink: Callable[[Record, int | None], None] = lambda record, level: self.capture.write(record)
        self.health = Health()
        self._decoding = Decoding(
            lambda exchange, phase: build_record(exchange, self.labels, phase),
            keep=self._keep,
            on_done=self._end_if_over,
            on_failure=self.fail,
        )
        self.admission = Admission(
            options, kind, prompts, shard, users, on_measure=self._begin_measuring, on_idle=self._end_if_over
        )
        self.director: Director | None = None
        """The director of a capacity search in one process; workers follow their master's director."""
        if kind == "capacity" and shard.count == 1:
            self.director = director(
                options,
                end_level=self.admission.end_level,
                begin_level=self.admission.begin_level,
                on_change=self._write_scenario,
            )
            self.admission.on_level_over = self.director.level_over
        self.finished = self.failed = 0
        """Measured tickets whose last request has ended, and measured requests that failed."""
        self.over = Event()
        self.stopping = False
        self.failure: str | None = None
        self.started_utc = utc_now(milliseconds=True)
        self._asked = asked_fields(
            options,
            kind,
            users=users() or None,
            measured_prompts=prompts.total,
            conversations=conversations,
            extras=self.extras,
            headers=headers,
        )
        self.health.start()
        self._write_scenario()

    def _begin_measuring(self) -> None:
        # A worker gets its number of users only after the start of the test.
        self._asked["users"] = self.users()
        self.health.start()

    def next(self, user: int) -> Ticket | None:
        """Wait for this user's next ticket; None once there is nothing more to send."""
        self._decoding.wait_for_room()
        return self.admission.next(user)

    def close(self, reason: str) -> None:
        """Admit no more requests, before all were asked. The first call's reason stays."""
        self.admission.close(reason)
        self._decoding.let_all_go()

    def stop(self) -> None:
        """Handle Locust's stop of the test."""
        if not self.stopping and self.users() != self._asked["users"] and self.admission.measure_start_ns is not None:
            self.close(f"the number of users was changed from {self._asked['users']} to {self.users()} during the test")
        self.stopping = True
        if not self.over.is_set():
            self.close("stopped before it was complete")

    def _end_if_over(self) -> None:
        if self.admission.closed and not self.admission.tickets_out and self._decoding.is_idle:
            self.over.set()

    def ended(self, exchange: Exchange) -> None:
        """Accept an ended request; it is decoded and written a little later, between arrivals."""
        phase = exchange.ticket.phase
        if phase is not Phase.WARMUP and self.admission.is_last_lap:
            phase = Phase.DRAIN
        self._decoding.put(exchange, phase)

    # -- records ----------------------------------------------------------------------------------------------------

    def send_records_with(self, sink: Callable[[Record, int | None], None]) -> None:
        """Set the function that receives each record and its level (a worker sends them to its master)."""
        self._sink = sink

    def _keep(self, record: Record, exchange: Exchange) -> None:
        """Write a record without known secrets, count it, and pass it to the listeners."""
        hide_secrets(record)
        # A retried attempt is no evidence on a level; the next attempt is.
        level = None if exchange.retried else exchange.ticket.level
        try:
            self._sink(record, level)
        except CaptureError as error:
            self.fail(str(error))
        # A retried attempt counts as an error in the figures, but its request has not ended.
        if record.measured and not exchange.retried:
            self.finished += record.failed or exchange.ticket.is_last
            self.failed += record.failed
        if record.failed and self.options.keep_raw and exchange.reply is not None:
            self.capture.keep_raw(record, exchange.reply.raw or [])
        if self.director and record.measured:
            self.director.observe(record, level)
        exchange.record = record
        exchange.kept.set()
        self._on_record(record)

    def record_of(self, exchange: Exchange) -> Record | None:
        """Wait for the record of an exchange that has ended; None where the test ends without one."""
        gevent.wait([exchange.kept, self.over], count=1)
        return exchange.record

    def fail(self, message: str) -> None:
        """End the test at once and mark it incomplete. The first message stays."""
        if self.failure is None:
            self.failure = message
            log.error(message)
            self._decoding.stop()
            self.close(message)
            self.over.set()

    def finish(self) -> None:
        """After the users have stopped: decode the remaining requests, and write the result of the test."""
        self.over.set()
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
        """Why the test is incomplete; None if it is complete."""
        if self.failure:
            return self.failure
        if self.admission.stop_reason:
            return self.admission.stop_reason
        required = self.admission.required
        if required is not None and self.finished < required:
            what = "conversations" if "conversations" in self._asked else "requests"
            return f"{self.finished} of {required} measured {what}"
        return None

    def describe(self, *, ended: bool) -> dict[str, Any]:
        """The fields of scenario.json except its counts."""
        return process_fields(
            self.labels,
            self._asked,
            self.admission,
            started_utc=self.started_utc,
            ended=ended,
            reason=self.incomplete_reason,
            client=self.health.summary() if ended else None,
            capacity=self.director.summary() if self.director else None,
        )

    def _write_scenario(self, *, ended: bool = False) -> None:
        self.capture.write_scenario(**self.describe(ended=ended))
