"""A worker of a distributed run: joins its master, gets its shard, and sends its records and its end."""

from __future__ import annotations

import logging
from typing import Any

import gevent
from locust.runners import WorkerRunner

from load.distributed.join import credentials
from load.distributed.messages import (
    DRAIN,
    END,
    END_LEVEL,
    GO,
    HAVE_SHARD,
    JOIN,
    LEVEL,
    LEVEL_OVER,
    OVER,
    RECORD,
    REFUSED,
    SHARD,
    WARM,
)
from load.environment_state import state_of
from load.options import UsageError
from load.schedule.tickets import Shard
from load.session import Session
from load.web.parts import parts_of
from records import Record
from records.exit_codes import ExitCode

log = logging.getLogger("enginebench")


def listen(environment: Any) -> None:
    """Register for the master's messages, and ask to join."""
    runner = environment.runner
    for kind, handler in (
        (REFUSED, _on_refused),
        (SHARD, _on_shard),
        (GO, _on_go),
        (END_LEVEL, _on_end_level),
        (LEVEL, _on_level),
        (DRAIN, _on_drain),
    ):
        runner.register_message(kind, handler)
    runner.send_message(JOIN, credentials(state_of(environment).scenario))


def shard(environment: Any) -> Shard:
    """The shard of this process; outside a distributed run, the whole.

    Raises:
        UsageError: a worker has no shard; it must not ask the prompts of the others.
    """
    part = state_of(environment).shard
    if part is None and isinstance(environment.runner, WorkerRunner):
        raise UsageError("this worker came after the start of the test and takes no part in it")
    return part or Shard()


def _on_refused(environment: Any, msg: Any, **_: Any) -> None:
    log.error("the master refuses this worker: %s", msg.data["reason"])
    environment.process_exit_code = int(ExitCode.USAGE)
    # In another greenlet, because this one receives the master's messages.
    gevent.spawn(environment.runner.quit)


def _on_shard(environment: Any, msg: Any, **_: Any) -> None:
    state_of(environment).shard = Shard(msg.data["index"], msg.data["count"])
    environment.runner.send_message(HAVE_SHARD, msg.data)


def _on_go(environment: Any, msg: Any, **_: Any) -> None:
    if session := state_of(environment).session:
        session.admission.go()


def _on_end_level(environment: Any, msg: Any, **_: Any) -> None:
    if session := state_of(environment).session:
        session.admission.end_level()


def _on_level(environment: Any, msg: Any, **_: Any) -> None:
    if session := state_of(environment).session:
        session.admission.begin_level(msg.data["level"])


def _on_drain(environment: Any, msg: Any, **_: Any) -> None:
    # In another greenlet, because this one receives the master's messages.
    gevent.spawn(_drain, environment)


def _drain(environment: Any) -> None:
    """Let requests in flight end, then report, because Locust's master does not wait for its workers when it quits."""
    runner = environment.runner
    runner.stop()
    runner._send_stats()
    # Otherwise Locust's "stop" would sleep as long again before the worker is ready for another test.
    environment.stop_timeout = 0.0


def start(environment: Any, session: Session) -> None:
    """Send records to the master instead of writing them, and measure when all workers are warm."""
    part_of = parts_of(session.admission, state_of(environment).kind, session.options.step_by)

    def send(record: Record, level: int | None) -> None:
        session.capture.write(record)
        values = {name: getattr(record, name) for name in record.__slots__}
        environment.runner.send_message(RECORD, values | {"level": level, "part": part_of(record)})

    session.send_records_with(send)
    session.admission.on_level_over = lambda: environment.runner.send_message(LEVEL_OVER, {})
    session.admission.wait_for_others(lambda: environment.runner.send_message(WARM, {}))


def report_over(environment: Any, session: Session) -> None:
    """Tell the master that this worker has sent all its requests."""
    environment.runner.send_message(OVER, {"finished": session.finished})


def finish(environment: Any, session: Session) -> None:
    """Send the result of this worker's part, after Locust's own statistics, so that the master has both at the end."""
    environment.runner._send_stats()
    end = session.describe(ended=True) | {
        "counts": session.capture.counts,
        "failed": session.failed + (session.failure is not None),
        "worker": session.labels.worker,
    }
    environment.runner.send_message(END, end)
