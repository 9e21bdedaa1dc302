"""The master of a distributed run: it deals shards, writes what all workers record, and waits for them at the end."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import gevent
from locust import runners
from locust.runners import MasterRunner

from load import hooks
from load.capture import Capture, CaptureError, utc_now
from load.distributed.messages import DRAIN, END, GO, HAVE_SHARD, OVER, RECORD, SHARD, WARM
from load.options import UsageError, capture_dir, check, check_users
from records import Phase, Record
from workloads import TaskError, load_prompts

log = logging.getLogger("enginebench")

SHARD_AGAIN_S, SHARD_WAIT_S = 0.1, 15.0
HEARTBEATS_MISSED = 8
"""Seconds without a sign of life after which a worker is lost. Locust's 3 pass on a busy host that loses none."""
END_WAIT_S = 10.0
"""How long the master waits for a worker's end beyond the time that the requests in flight may take."""


@dataclass
class Master:
    """What the master gathers during one test."""

    capture: Capture
    expected: set[str]
    warm: set[str] = field(default_factory=set)
    going: bool = False
    """Whether the workers have been told to measure."""
    over: set[str] = field(default_factory=set)
    ends: dict[str, dict[str, Any]] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    failure: str | None = None
    draining: bool = False
    """Whether a stop is under way; Locust may come to another, where a worker was slow to say that it had begun."""
    started_utc: str = field(default_factory=utc_now)


def listen(runner: MasterRunner) -> None:
    """Register for the workers' messages."""
    runners.HEARTBEAT_LIVENESS = HEARTBEATS_MISSED
    runner.register_message(HAVE_SHARD, _on_have_shard)
    runner.register_message(WARM, _on_warm)
    runner.register_message(RECORD, _on_record)
    runner.register_message(OVER, _on_over)
    runner.register_message(END, _on_end)


def of(environment: Any) -> Master | None:
    """What the master has gathered of the running test; None where none runs."""
    found: Master | None = getattr(environment, "enginebench_master", None)
    return found


def start(environment: Any) -> None:
    """Give each worker its shard, and open the capture."""
    runner, options = environment.runner, environment.parsed_options
    if of(environment) is not None:
        return  # Locust starts anew to spread the users of a lost worker; the test is the same.
    clients = [client.id for client in runner.clients.ready or runner.clients.all]
    try:
        check(options, environment.enginebench_kind)
        check_users(environment, runner.target_user_count)
        _refuse_idle_workers(len(clients), runner.target_user_count, options)
        _deal(environment, sorted(clients))
        capture = Capture(capture_dir(options), append=options.append)
    except (UsageError, CaptureError, TaskError) as error:
        log.error("%s", error)
        if environment.web_ui is not None:
            # The page and the workers stay, for another try; for Locust no test has begun.
            raise gevent.GreenletExit from None
        environment.process_exit_code = 2
        gevent.spawn(runner.quit)
        return
    environment.enginebench_master = Master(capture, set(clients))
    gevent.spawn(_watch_workers, environment, environment.enginebench_master)


def _refuse_idle_workers(workers: int, users: int, options: Any) -> None:
    """A worker without a user never asks its part, one without a prompt has none to ask: the run would never end.

    Raises:
        UsageError: there are too few users or prompts.
        TaskError: the prompts cannot be had.
    """
    if users < workers:
        told = f"{users} user{'s' * (users != 1)}"
        raise UsageError(f"--users: {told} for {workers} workers; each needs one: start fewer workers")
    prompts = sum(prompt.pool != Phase.WARMUP for prompt in load_prompts(options.prompts, seed=options.seed))
    if prompts < workers:
        told = f"{prompts} prompt{'s' * (prompts != 1)}"
        raise UsageError(f"--prompts: {told} for {workers} workers; each needs one: start fewer workers")


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


def _on_warm(environment: Any, msg: Any, **_: Any) -> None:
    master = of(environment)
    if master is not None:
        master.warm.add(msg.node_id)
        _go_if_all_warm(environment, master)


def _go_if_all_warm(environment: Any, master: Master) -> None:
    """Let measuring begin everywhere at once: no worker's warm-up is a part of another's measurement."""
    if not master.going and master.expected <= master.warm | set(master.ends) | master.lost:
        master.going = True
        for client in sorted(master.expected - master.lost):
            environment.runner.send_message(GO, {}, client_id=client)


def _on_record(environment: Any, msg: Any, **_: Any) -> None:
    master = of(environment)
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
    hooks.fire_stream(environment, record)


def _on_over(environment: Any, msg: Any, **_: Any) -> None:
    master = of(environment)
    if master is not None:
        master.over.add(msg.node_id)
        _end_if_all_over(environment, master)


def _on_end(environment: Any, msg: Any, **_: Any) -> None:
    master = of(environment)
    if master is not None:
        master.ends[msg.node_id] = msg.data
        _go_if_all_warm(environment, master)


def _end_if_all_over(environment: Any, master: Master) -> None:
    if not master.draining and master.expected <= master.over | master.lost:
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
            _go_if_all_warm(environment, master)
            _end_if_all_over(environment, master)
        gevent.sleep(0.2)


def stopping(environment: Any) -> None:
    """A stop was asked for: tell the workers, and wait until all that live have sent everything and said so."""
    master = of(environment)
    if master is None:
        return
    if not master.draining:
        master.draining = True
        for client in sorted(master.expected - master.lost):
            environment.runner.send_message(DRAIN, {}, client_id=client)
    with gevent.Timeout(environment.parsed_options.drain_timeout + END_WAIT_S, False):  # type: ignore[arg-type]
        while not master.expected <= set(master.ends) | master.lost:
            gevent.sleep(0.02)
