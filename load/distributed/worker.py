"""A worker of a distributed run: it takes its shard, and sends its records and its end to the master."""

from __future__ import annotations

from typing import Any

import gevent
from locust.runners import WorkerRunner

from load.describe import describe
from load.distributed.messages import DRAIN, END, GO, HAVE_SHARD, OVER, RECORD, SHARD, WARM
from load.options import UsageError
from load.schedule.tickets import Shard
from load.session import Session
from records import Record


def listen(runner: WorkerRunner) -> None:
    """Register for the master's messages."""
    runner.register_message(SHARD, _on_shard)
    runner.register_message(GO, _on_go)
    runner.register_message(DRAIN, _on_drain)


def shard(environment: Any) -> Shard:
    """The part of this process; the whole outside a distributed run.

    Raises:
        UsageError: a worker that has none; with the whole it would ask what the others ask too.
    """
    found: Shard | None = getattr(environment, "enginebench_shard", None)
    if found is None and isinstance(environment.runner, WorkerRunner):
        raise UsageError("this worker came after the start of the test and takes no part in it")
    return found or Shard()


def _on_shard(environment: Any, msg: Any, **_: Any) -> None:
    environment.enginebench_shard = Shard(msg.data["index"], msg.data["count"])
    environment.runner.send_message(HAVE_SHARD, msg.data)


def _on_go(environment: Any, msg: Any, **_: Any) -> None:
    session = getattr(environment, "enginebench", None)
    if isinstance(session, Session):
        session.admission.go()


def _on_drain(environment: Any, msg: Any, **_: Any) -> None:
    # Not here: this greenlet takes the master's messages.
    gevent.spawn(_drain, environment)


def _drain(environment: Any) -> None:
    """Let what is in flight end, then report: Locust's own master does not wait for its workers when it quits."""
    runner = environment.runner
    runner.stop()
    runner._send_stats()
    # Else Locust's "stop" sleeps for as long again before the worker is ready for another test.
    environment.stop_timeout = 0.0


def start(environment: Any, session: Session) -> None:
    """Send records to the master instead of writing them, and measure when all workers are warm."""

    def send(record: Record) -> None:
        session.capture.write(record)
        environment.runner.send_message(RECORD, {name: getattr(record, name) for name in record.__slots__})

    session.send_records_with(send)
    session.admission.wait_for_others(lambda: environment.runner.send_message(WARM, {}))


def report_over(environment: Any, session: Session) -> None:
    """Tell the master that this worker has sent all it was asked for."""
    environment.runner.send_message(OVER, {"finished": session.finished})


def finish(environment: Any, session: Session) -> None:
    """Send how this worker's part came out."""
    end = describe(session, ended=True) | {
        "counts": session.capture.counts,
        "failed": session.failed + (session.failure is not None),
        "worker": session.worker,
    }
    environment.runner.send_message(END, end)
