"""The master of a distributed run: assigns shards, writes the records of all workers, and waits for their ends."""

from __future__ import annotations

import logging
from typing import Any

import gevent
from locust import runners
from locust.runners import MasterRunner

from load import hooks
from load.capture import Capture, CaptureError
from load.conversation import admitted, check_conversations
from load.distributed.join import JoinGuard
from load.distributed.messages import (
    DRAIN,
    END,
    END_LEVEL,
    GO,
    HAVE_SHARD,
    LEVEL,
    LEVEL_OVER,
    OVER,
    RECORD,
    SHARD,
    WARM,
)
from load.distributed.progress import Progress
from load.environment_state import state_of
from load.options import UsageError, capture_dir, check, check_users, failure_exit_code, users_of
from load.scenario_json import distributed_fields
from load.schedule.capacity import Director, director
from records import Phase, Record
from records.exit_codes import ExitCode
from workloads import Prompt, TaskError, load_prompts

log = logging.getLogger("enginebench")

SHARD_AGAIN_S, SHARD_WAIT_S = 0.1, 15.0
HEARTBEATS_MISSED = 8
"""Seconds without a heartbeat after which a worker is lost. Locust's 3 are too short for a busy host."""
END_WAIT_S = 10.0
"""Seconds that the master waits for a worker's end after the drain timeout."""


def listen(environment: Any) -> None:
    """Register for the workers' messages, and guard who may join."""
    runner, state = environment.runner, state_of(environment)
    runners.HEARTBEAT_LIVENESS = HEARTBEATS_MISSED
    state.join_guard = JoinGuard(
        runner,
        scenario=state.scenario,
        forks=bool(environment.parsed_options.processes),
        waits=environment.web_ui is not None,
    )
    for kind, handler in (
        (HAVE_SHARD, _on_have_shard),
        (WARM, _on_warm),
        (RECORD, _on_record),
        (LEVEL_OVER, _on_level_over),
        (OVER, _on_over),
        (END, _on_end),
    ):
        runner.register_message(kind, handler)


def start(environment: Any) -> None:
    """Give each worker its shard, and open the capture."""
    runner, options, state = environment.runner, environment.parsed_options, state_of(environment)
    if state.progress is not None:
        return  # Locust restarts to spread the users of a lost worker; the test is the same.
    assert state.join_guard is not None
    state.join_guard.close()
    clients = {client.id for client in runner.clients.ready or runner.clients.all}
    try:
        check(options, state.kind)
        check_users(state.scenario, state.exact_users, runner.target_user_count, users_of(options, state.kind))
        _refuse_idle_workers(len(clients), runner.target_user_count, options)
        _assign_shards(environment, sorted(clients))
        capture = Capture(capture_dir(options), append=options.append)
    except (UsageError, CaptureError, TaskError) as error:
        log.error("%s", error)
        state.join_guard.open()
        if environment.web_ui is not None:
            # The page and the workers stay for another attempt; for Locust no test has begun.
            raise gevent.GreenletExit from None
        environment.process_exit_code = int(ExitCode.USAGE)
        gevent.spawn(runner.quit)
        return
    state.progress = Progress(capture, clients, runner.target_user_count)
    if state.kind == "capacity":
        state.progress.director = _director(environment, state.progress)
    gevent.spawn(_watch_workers, environment, state.progress)


def _director(environment: Any, progress: Progress) -> Director:
    """The director of a capacity search that all workers follow."""

    def tell(kind: str, data: dict[str, Any]) -> None:
        for client in progress.here:
            environment.runner.send_message(kind, data, client_id=client)

    def begin_level(level: float | None) -> None:
        progress.level_over.clear()
        tell(LEVEL, {"level": level})

    return director(
        environment.parsed_options,
        end_level=lambda: tell(END_LEVEL, {}),
        begin_level=begin_level,
        on_change=lambda: None,
    )


def _on_level_over(environment: Any, msg: Any, **_: Any) -> None:
    if progress := state_of(environment).progress:
        progress.level_over.add(msg.node_id)
        _next_level_if_over(progress)


def _next_level_if_over(progress: Progress) -> None:
    if progress.director and progress.level_over and progress.all_level_over and not progress.draining:
        progress.director.level_over()


def _refuse_idle_workers(workers: int, users: int, options: Any) -> None:
    """Refuse a test in which a worker has no user or no prompt, because it would never end.

    Raises:
        UsageError: there are too few users or prompts.
        TaskError: the prompts cannot be loaded.
    """
    if users < workers:
        amount = f"{users} user{'s' * (users != 1)}"
        raise UsageError(f"--users: {amount} for {workers} workers; each needs one: start fewer workers")
    prompts = len(_measured_prompts(options))
    if prompts < workers:
        amount = f"{prompts} prompt{'s' * (prompts != 1)}"
        raise UsageError(f"--prompts: {amount} for {workers} workers; each needs one: start fewer workers")


def _measured_prompts(options: Any) -> list[Prompt]:
    prompts = load_prompts(options.prompts, seed=options.seed)
    check_conversations(options, prompts)
    return [prompt for prompt in prompts if prompt.pool != Phase.WARMUP]


def _assign_shards(environment: Any, clients: list[str]) -> None:
    """Assign each worker its shard before Locust starts any of them, and wait until all have confirmed.

    Raises:
        UsageError: a worker does not answer.
    """
    acknowledged = state_of(environment).acknowledged
    acknowledged.clear()
    shards = {client: {"index": index, "count": len(clients)} for index, client in enumerate(clients)}
    with gevent.Timeout(SHARD_WAIT_S, UsageError("a worker does not answer; does it run the same locustfile?")):
        while missing := [client for client in clients if acknowledged.get(client) != shards[client]]:
            for client in missing:
                environment.runner.send_message(SHARD, shards[client], client_id=client)
            with gevent.Timeout(SHARD_AGAIN_S, False):  # type: ignore[arg-type]
                while any(acknowledged.get(client) != shards[client] for client in missing):
                    gevent.sleep(0.002)


def _on_have_shard(environment: Any, msg: Any, **_: Any) -> None:
    state_of(environment).acknowledged[msg.node_id] = msg.data


def _on_warm(environment: Any, msg: Any, **_: Any) -> None:
    if progress := state_of(environment).progress:
        progress.warm.add(msg.node_id)
        _measure_if_all_warm(environment.runner, progress)


def _measure_if_all_warm(runner: MasterRunner, progress: Progress) -> None:
    """Start measuring in all workers at once, so that no worker's warm-up overlaps another's measurement."""
    if not progress.measuring and progress.all_warm:
        progress.measuring = True
        for client in progress.here:
            runner.send_message(GO, {}, client_id=client)


def _on_record(environment: Any, msg: Any, **_: Any) -> None:
    progress = state_of(environment).progress
    if progress is None or progress.failure:
        return
    record = Record.from_dict(msg.data)
    try:
        progress.capture.write(record)
    except CaptureError as error:
        progress.fail(str(error))
        log.error("%s", error)
        gevent.spawn(environment.runner.quit)
        return
    progress.part = msg.data.get("part")
    # The master's own listeners get every record too, but Locust's `request` statistics come from the workers.
    hooks.fire_stream(environment.events, record)
    if progress.director and record.measured:
        progress.director.observe(record, msg.data.get("level"))


def _on_over(environment: Any, msg: Any, **_: Any) -> None:
    if progress := state_of(environment).progress:
        progress.over.add(msg.node_id)
        _end_if_all_over(environment, progress)


def _on_end(environment: Any, msg: Any, **_: Any) -> None:
    if progress := state_of(environment).progress:
        progress.ends[msg.node_id] = msg.data
        _measure_if_all_warm(environment.runner, progress)


def _end_if_all_over(environment: Any, progress: Progress) -> None:
    if not progress.draining and progress.all_over:
        gevent.spawn(environment.runner.quit if environment.web_ui is None else environment.runner.stop)


def _watch_workers(environment: Any, progress: Progress) -> None:
    """Report a lost worker: its part of the load is missing from then on."""
    clients = environment.runner.clients
    while state_of(environment).progress is progress:
        gone = progress.see_workers((c.id for c in clients.all), (c.id for c in clients.missing))
        for client in gone:
            log.error("worker %s is gone; its requests in flight are lost, and the capture is incomplete", client)
        if gone:
            _measure_if_all_warm(environment.runner, progress)
            _next_level_if_over(progress)
            _end_if_all_over(environment, progress)
        gevent.sleep(0.2)


def stopping(environment: Any) -> None:
    """Tell the workers to drain, and wait until all remaining workers have sent their records and their end."""
    progress = state_of(environment).progress
    if progress is None:
        return
    if not progress.draining:
        progress.draining = True
        for client in progress.here:
            environment.runner.send_message(DRAIN, {}, client_id=client)
    with gevent.Timeout(environment.stop_timeout + END_WAIT_S, False):  # type: ignore[arg-type]
        while not progress.all_ended:
            gevent.sleep(0.02)


def finish(environment: Any) -> None:
    """Write scenario.json from the ends of the workers, and set the exit code."""
    state, options = state_of(environment), environment.parsed_options
    progress = state.progress
    if progress is None:
        return
    owes_no_number = options.duration or progress.director
    owed = admitted(options) or (None if owes_no_number else len(_measured_prompts(options)) * options.samples)
    fields = distributed_fields(
        [end for _, end in sorted(progress.ends.items())],
        users=progress.users,
        admitted=owed,
        started_utc=progress.started_utc,
        reason=progress.incomplete_reason(environment.runner.target_user_count),
        capacity=progress.director.summary() if progress.director else None,
    )
    try:
        progress.capture.write_scenario(**fields)
    except CaptureError as error:
        progress.fail(str(error))
        log.error("%s", error)
    progress.capture.close()
    environment.process_exit_code = failure_exit_code(options) if progress.failed else int(ExitCode.DONE)
    state.progress = None
    assert state.join_guard is not None
    state.join_guard.open()
