"""Several load processes as one: prompts and counts are sharded, and the master writes what all workers record.

Records travel as Locust messages, one a request, on the socket that also carries the workers' ends; ZeroMQ keeps their
order, so that once a worker has said that it is over, all of its records are here. Clocks are never compared: a
record's stamps mean something only among those of the same worker.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import gevent
from locust.runners import MasterRunner, WorkerRunner

from locustfiles import _hooks
from locustfiles._capture import Capture, CaptureError, utc_now
from locustfiles._options import UsageError, capture_dir, check
from locustfiles._session import Session
from locustfiles._tickets import Shard
from records import Record
from scoring.tasks import load_prompts

log = logging.getLogger("enginebench")

SHARD, RECORD, OVER, END = "enginebench_shard", "enginebench_record", "enginebench_over", "enginebench_end"
HAVE_SHARD = "enginebench_have_shard"
SHARD_AGAIN_S, SHARD_WAIT_S = 0.1, 15.0
DRAIN = "enginebench_drain"
END_WAIT_S = 10.0
"""How long the master waits for a worker's end beyond the time that the requests in flight may take."""


@dataclass
class Master:
    """What the master gathers during one test."""

    capture: Capture
    expected: set[str]
    over: set[str] = field(default_factory=set)
    ends: dict[str, dict[str, Any]] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    failure: str | None = None
    started_utc: str = field(default_factory=utc_now)


def install(environment: Any) -> None:
    """Register the messages between master and workers."""
    runner = environment.runner
    if isinstance(runner, WorkerRunner):
        runner.register_message(SHARD, _on_shard)
        runner.register_message(DRAIN, _on_drain)
    elif isinstance(runner, MasterRunner):
        runner.register_message(HAVE_SHARD, _on_have_shard)
        runner.register_message(RECORD, _on_record)
        runner.register_message(OVER, _on_over)
        runner.register_message(END, _on_end)


def shard(environment: Any) -> Shard:
    """The part of this process; the whole outside a distributed run.

    Raises:
        UsageError: a worker that has none; with the whole it would ask what the others ask too.
    """
    found: Shard | None = getattr(environment, "enginebench_shard", None)
    if found is None and isinstance(environment.runner, WorkerRunner):
        raise UsageError("this worker came after the start of the test and takes no part in it")
    return found or Shard()


# -- worker ---------------------------------------------------------------------------------------------------------


def _on_shard(environment: Any, msg: Any, **_: Any) -> None:
    environment.enginebench_shard = Shard(msg.data["index"], msg.data["count"])
    environment.runner.send_message(HAVE_SHARD, msg.data)


def _on_drain(environment: Any, msg: Any, **_: Any) -> None:
    # Not here: this greenlet takes the master's messages.
    gevent.spawn(_drain_worker, environment)


def _drain_worker(environment: Any) -> None:
    """Let what is in flight end, then report: Locust's own master does not wait for its workers when it quits."""
    runner = environment.runner
    runner.stop()
    runner._send_stats()
    # Else Locust's "stop" sleeps for as long again before the worker is ready for another test.
    environment.stop_timeout = 0.0


def start_worker(environment: Any, session: Session) -> None:
    """Send records to the master instead of writing them."""

    def send(record: Record) -> None:
        session.capture.write(record)
        environment.runner.send_message(RECORD, {name: getattr(record, name) for name in record.__slots__})

    session.send_records_with(send)


def report_over(environment: Any, session: Session) -> None:
    """Tell the master that this worker has sent all it was asked for."""
    environment.runner.send_message(OVER, {"finished": session.finished})


def finish_worker(environment: Any, session: Session) -> None:
    """Send how this worker's part came out."""
    end = session.describe(ended=True) | {
        "counts": session.capture.counts,
        "failed": session.failed + (session.failure is not None),
        "worker": session.worker,
    }
    environment.runner.send_message(END, end)


# -- master ---------------------------------------------------------------------------------------------------------


def start_master(environment: Any) -> None:
    """Give each worker its shard, and open the capture."""
    runner, options = environment.runner, environment.parsed_options
    if _master(environment) is not None:
        return  # Locust starts anew to spread the users of a lost worker; the test is the same.
    clients = [client.id for client in runner.clients.ready or runner.clients.all]
    try:
        _deal(environment, sorted(clients))
        check(options)
        capture = Capture(capture_dir(options), append=options.append)
    except (UsageError, CaptureError) as error:
        log.error("%s", error)
        environment.process_exit_code = 2
        gevent.spawn(runner.quit)
        return
    environment.enginebench_master = Master(capture, set(clients))
    gevent.spawn(_watch_workers, environment, environment.enginebench_master)


def _deal(environment: Any, clients: list[str]) -> None:
    """Give each worker its shard, before Locust tells any to begin.

    Locust calls a worker ready as soon as it has connected; what is sent before that worker has come to its `init` it
    throws away, so a shard is sent until it is acknowledged.

    Raises:
        UsageError: a worker that does not answer.
    """
    have: dict[str, Any] = {}
    environment.enginebench_have_shard = have
    shards = {client: {"index": index, "count": len(clients)} for index, client in enumerate(clients)}
    with gevent.Timeout(SHARD_WAIT_S, UsageError("a worker does not take its part; does it run the same locustfile?")):
        while missing := [client for client in clients if have.get(client) != shards[client]]:
            for client in missing:
                environment.runner.send_message(SHARD, shards[client], client_id=client)
            with gevent.Timeout(SHARD_AGAIN_S, False):  # type: ignore[arg-type]
                while any(have.get(client) != shards[client] for client in missing):
                    gevent.sleep(0.002)


def _on_have_shard(environment: Any, msg: Any, **_: Any) -> None:
    environment.enginebench_have_shard[msg.node_id] = msg.data


def _master(environment: Any) -> Master | None:
    return getattr(environment, "enginebench_master", None)


def _on_record(environment: Any, msg: Any, **_: Any) -> None:
    master = _master(environment)
    if master is None or master.failure:
        return
    record = Record.from_dict(msg.data)
    try:
        master.capture.write(record)
    except CaptureError as error:
        master.failure = str(error)
        log.error("%s", error)
        gevent.spawn(environment.runner.quit)
        return
    # The master's own listeners see every request too, but Locust's `request` statistics come from the workers.
    _hooks.fire_stream(environment, record)


def _on_over(environment: Any, msg: Any, **_: Any) -> None:
    master = _master(environment)
    if master is not None:
        master.over.add(msg.node_id)
        _end_if_all_over(environment, master)


def _on_end(environment: Any, msg: Any, **_: Any) -> None:
    master = _master(environment)
    if master is not None:
        master.ends[msg.node_id] = msg.data


def _end_if_all_over(environment: Any, master: Master) -> None:
    if master.expected <= master.over | master.lost:
        gevent.spawn(environment.runner.quit if environment.web_ui is None else environment.runner.stop)


def _watch_workers(environment: Any, master: Master) -> None:
    """Say so when a worker is lost: its part of the load is missing from then on."""
    while environment.enginebench_master is master:
        here = {client.id for client in environment.runner.clients.all}
        missing = {client.id for client in environment.runner.clients.missing}
        gone = (master.expected - here | master.expected & missing) - master.lost - set(master.ends) - master.over
        for client in sorted(gone):
            master.lost.add(client)
            log.error("worker %s is gone; what it had in flight is lost, and the scenario is incomplete", client)
        if gone:
            _end_if_all_over(environment, master)
        gevent.sleep(0.2)


def stopping_master(environment: Any) -> None:
    """A stop was asked for: tell the workers, and wait until all that live have sent everything and said so."""
    master = _master(environment)
    if master is None:
        return
    for client in sorted(master.expected - master.lost):
        environment.runner.send_message(DRAIN, {}, client_id=client)
    with gevent.Timeout(environment.parsed_options.drain_timeout + END_WAIT_S, False):  # type: ignore[arg-type]
        while not master.expected <= set(master.ends) | master.lost:
            gevent.sleep(0.02)


def finish_master(environment: Any) -> None:
    """Write the whole scenario from the ends of the workers."""
    master = _master(environment)
    if master is None:
        return
    silent = master.expected - set(master.ends)
    reason = _incomplete_reason(master, silent)
    workers = [{**end, "in_flight_clock": "this worker's own"} for _, end in sorted(master.ends.items())]
    first = workers[0] if workers else {}
    options = environment.parsed_options
    prompts = load_prompts(options.prompts, seed=options.seed) if not options.requests else []
    total = options.requests or sum(p.pool != "warmup" for p in prompts) * options.samples
    asked = {**first.get("asked", {}), "users": sum(w["asked"]["users"] or 0 for w in workers)}
    asked["requests"] = None if options.duration and not options.requests else total
    fields = {key: first.get(key) for key in ("engine", "cell", "scenario", "workload", "round")}
    try:
        master.capture.write_scenario(
            **fields,
            asked=asked,
            started_utc=master.started_utc,
            ended_utc=utc_now(),
            # Each worker's window is on its own clock, in `workers`.
            measure_start_ns=None,
            measure_end_ns=None,
            steps=[],
            saturated_at=None,
            client=_worst(workers),
            workers=workers,
            complete=reason is None,
            incomplete_reason=reason,
        )
    except CaptureError as error:
        master.failure = str(error)
        log.error("%s", error)
    master.capture.close()
    failed = any(end["failed"] for end in master.ends.values()) or master.failure or silent
    environment.process_exit_code = 1 if failed else 0
    environment.enginebench_master = None


def _incomplete_reason(master: Master, silent: set[str]) -> str | None:
    if master.failure:
        return master.failure
    if silent:
        return f"worker lost: {', '.join(sorted(silent))}"
    reasons = {end["incomplete_reason"] for end in master.ends.values() if end["incomplete_reason"]}
    sent = sum(end["counts"]["measure"] + end["counts"]["drain"] for end in master.ends.values())
    written = master.capture.counts["measure"] + master.capture.counts["drain"]
    if sent != written:
        return f"workers sent {sent} records, {written} were written"
    return "; ".join(sorted(reasons)) or None


def _worst(workers: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The health of the least healthy worker; its curve is in `workers`."""
    clients = [w["client"] for w in workers if w.get("client")]
    if not clients:
        return None
    worst = max(clients, key=lambda c: (bool(c["bottleneck"]), c["loop_lag_ms_p99"] or 0.0))
    late = sum(c["late_sends"] for c in clients)
    return {**worst, "in_flight": [], "late_sends": late}
