"""Ties a scenario to Locust: options, users without -u, sessions from start to stop, the end after N requests."""

from __future__ import annotations

import itertools
import logging
import sys
from typing import Any, NoReturn

import gevent
from locust import events
from locust.runners import MasterRunner, WorkerRunner

from load import hooks
from load.distributed import master, result, worker
from load.http.connection import Connection, StreamError
from load.options import add_options, check, check_users, target
from load.process import collector
from load.process.interrupt import deliver_between_callbacks
from load.process.parent import end_with_driver, end_with_master
from load.session import Session
from load.stopping import end_when_over
from load.web import tab
from records.redaction import client_key

log = logging.getLogger("enginebench")


def install() -> None:
    """Listen to Locust's events; importing twice (two scenario files at once) listens once."""
    if getattr(events, "_enginebench", False):
        return
    events._enginebench = True  # type: ignore[attr-defined]
    hooks: Any = events
    hooks.init_command_line_parser.add_listener(add_options)
    hooks.init.add_listener(_on_init)
    hooks.test_start.add_listener(_on_test_start)
    hooks.test_stopping.add_listener(_on_test_stopping)
    hooks.test_stop.add_listener(_on_test_stop)
    hooks.quitting.add_listener(_on_quitting)
    hooks.user_error.add_listener(_on_user_error)


def session(environment: Any) -> Session:
    """The running test's session."""
    found: Session = environment.enginebench
    return found


def next_user(environment: Any) -> int:
    """Numbers users of one test from 0 in the order of their birth."""
    number: int = next(environment.enginebench_users)
    return number


def usage_error(message: str) -> NoReturn:
    """End with one line and exit code 2."""
    sys.stderr.write(f"enginebench: {message}\n")
    sys.stderr.flush()
    # Straight out: Locust would print the traceback of a SystemExit inside a greenlet.
    raise SystemExit(2)


def _on_init(environment: Any, **_: Any) -> None:
    end_with_driver()
    deliver_between_callbacks(environment)
    if isinstance(environment.runner, WorkerRunner):
        end_with_master()
    options = environment.parsed_options
    hooks.install(environment.events)
    if environment.stop_timeout == 0:
        environment.stop_timeout = options.drain_timeout
    scenario, user_class = _scenario(environment)
    environment.enginebench_scenario = scenario
    environment.enginebench_kind = user_class.kind
    environment.enginebench_exact = user_class.fixed_count if user_class.exact_count else None
    if options.num_users is None:
        options.num_users = user_class.fixed_count or None
    if options.num_users:
        if options.spawn_rate is None:
            # All at once: Locust's ramp of one user a second is not what the scenario's name promises.
            options.spawn_rate = options.num_users
        user_class.fixed_count = 0
    if isinstance(environment.runner, WorkerRunner):
        worker.listen(environment.runner)
    elif isinstance(environment.runner, MasterRunner):
        master.listen(environment.runner)
    tab.install(environment)
    if options.headless and not isinstance(environment.runner, WorkerRunner):
        _refuse_early(environment, options)


def _scenario(environment: Any) -> tuple[str, Any]:
    classes = environment.user_classes
    if len(classes) != 1:
        names = ", ".join(sorted(c.__name__ for c in classes))
        if environment.parsed_options.headless:
            usage_error(f"-f: one scenario at a time; name its file, or one user class ({names})")
    user_class = classes[0]
    return user_class.__module__.rpartition(".")[2], user_class


def _refuse_early(environment: Any, options: Any) -> None:
    """Look at what can be wrong before any load: options, prompts, and whether somebody answers."""
    from workloads import load_prompts

    try:
        check(options, environment.enginebench_kind)
        check_users(environment, options.num_users)
        client_key()
        where = target(environment.host or options.host)
        load_prompts(options.prompts, seed=options.seed)
    except ValueError as error:
        usage_error(str(error))
    try:
        connection = Connection(where, connect_timeout_s=min(10.0, options.request_timeout))
        connection.open()
        connection.close()
    except StreamError as error:
        usage_error(f"--host {environment.host or options.host}: no server there ({error}); start the engine first")


def _on_test_start(environment: Any, **_: Any) -> None:
    environment.enginebench_users = itertools.count()
    if isinstance(environment.runner, MasterRunner):
        master.start(environment)
        return
    try:
        if not isinstance(environment.runner, WorkerRunner):
            check_users(environment, environment.runner.target_user_count)
        client_key()
        shard = worker.shard(environment)
        made = Session(environment, environment.enginebench_scenario, environment.enginebench_kind, shard)
    except ValueError as error:
        if environment.web_ui is None and not isinstance(environment.runner, WorkerRunner):
            usage_error(str(error))
        log.error("%s", error)
        if isinstance(environment.runner, WorkerRunner):
            gevent.spawn(environment.runner.quit)
        # Out of the greenlet that would give birth to users next; for Locust no test has begun.
        raise gevent.GreenletExit from None
    environment.enginebench = made
    collector.calm()
    if isinstance(environment.runner, WorkerRunner):
        worker.start(environment, made)
    watcher = gevent.spawn(end_when_over, environment, made)
    watcher.link_exception(lambda greenlet: made.close(f"the end of the test failed: {_told(greenlet.exception)}"))


def _on_test_stopping(environment: Any, **_: Any) -> None:
    if isinstance(environment.runner, MasterRunner):
        master.stopping(environment)
    made = getattr(environment, "enginebench", None)
    if isinstance(made, Session):
        made.stopping = True
        if not made.over.is_set():
            made.close("stopped before it was complete")


def _on_test_stop(environment: Any, **_: Any) -> None:
    made = getattr(environment, "enginebench", None)
    if isinstance(environment.runner, MasterRunner):
        result.finish(environment)
        return
    if not isinstance(made, Session):
        return
    made.over.set()
    made.finish()
    if isinstance(environment.runner, WorkerRunner):
        worker.finish(environment, made)
    environment.process_exit_code = exit_code(made)
    environment.enginebench_last = made
    environment.enginebench = None


def exit_code(made: Session) -> int:
    """0, or 1 where a measured request failed or the capture could not be kept."""
    return 1 if made.failed or made.failure else 0


def _on_user_error(user_instance: Any, exception: BaseException, **_: Any) -> None:
    """A mistake in the load itself: Locust would log it and go on, and the figures would lack what it cost."""
    # Locust fires it with the user, or with the task set of one.
    user = getattr(user_instance, "user", user_instance)
    made = getattr(user.environment, "enginebench", None)
    if isinstance(made, Session):
        made.fail(f"the load itself failed: {_told(exception)}")


def _told(exception: BaseException | None) -> str:
    # Not its repr, which may hold what it was about: of an encoder all of its input.
    return f"{type(exception).__name__}: {exception}"


def _on_quitting(environment: Any, **_: Any) -> None:
    """Stop now, where a signal or the end of the run has not yet: Locust decides on its exit code right after this."""
    made = getattr(environment, "enginebench", None)
    if isinstance(environment.runner, MasterRunner):
        environment.runner.stop(send_stop_to_client=False)
    elif isinstance(made, Session) and not made.stopping:
        environment.runner.stop()
