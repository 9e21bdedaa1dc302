"""Connects a scenario to Locust: options, users without -u, sessions from start to stop, the end after N requests."""

from __future__ import annotations

import itertools
import logging
import sys
from typing import Any, NoReturn

import gevent
from locust import events
from locust.runners import MasterRunner, WorkerRunner

from load import end_table, hooks, process_setup
from load.conversation import check_conversations
from load.distributed import join, master, worker
from load.environment_state import State, attach, state_of
from load.http.connection import Connection, StreamError
from load.options import add_options, capture_dir, check, check_users, failure_exit_code, target, users_of
from load.session import Session
from load.web import tab
from records.exit_codes import ExitCode
from records.redaction import client_key

log = logging.getLogger("enginebench")


def install() -> None:
    """Register for Locust's events, once even if two scenario files are loaded."""
    if getattr(events, "_enginebench", False):
        return
    events._enginebench = True  # type: ignore[attr-defined]
    locust_events: Any = events
    locust_events.init_command_line_parser.add_listener(_on_parser)
    locust_events.init.add_listener(_on_init)
    locust_events.test_start.add_listener(_on_test_start)
    locust_events.test_stopping.add_listener(_on_test_stopping)
    locust_events.test_stop.add_listener(_on_test_stop)
    locust_events.quitting.add_listener(_on_quitting)
    locust_events.user_error.add_listener(_on_user_error)


def usage_error(message: str) -> NoReturn:
    """Exit with one line and code 2."""
    sys.stderr.write(f"enginebench: {message}\n")
    sys.stderr.flush()
    # Exits directly, because Locust would print the traceback of a SystemExit inside a greenlet.
    raise SystemExit(ExitCode.USAGE)


def _on_parser(parser: Any, **_: Any) -> None:
    add_options(parser)
    join.use_own_port(parser)


def _on_init(environment: Any, **_: Any) -> None:
    runner, options = environment.runner, environment.parsed_options
    process_setup.end_with_driver()
    process_setup.deliver_interrupts_between_callbacks()
    if isinstance(runner, WorkerRunner):
        process_setup.end_with_master()
    hooks.install(environment.events)
    scenario, user_class = _scenario(environment)
    exact = user_class.fixed_count if user_class.exact_count else None
    # Locust's default of 0 would kill the requests in flight.
    attach(environment, State(scenario, user_class.kind, exact, stop_timeout=environment.stop_timeout or None))
    _set_stop_timeout(environment)
    if options.num_users is None:
        options.num_users = users_of(options, user_class.kind) or user_class.fixed_count or None
    if options.num_users:
        if options.spawn_rate is None:
            # All users at once: Locust's default ramp of one user per second contradicts the scenario's name.
            options.spawn_rate = options.num_users
        user_class.fixed_count = 0
    if isinstance(runner, WorkerRunner):
        worker.listen(environment)
    elif isinstance(runner, MasterRunner):
        master.listen(environment)
    tab.install(environment)
    end_table.install(environment)
    if options.headless and not isinstance(runner, WorkerRunner):
        _refuse_early(environment, options)


def _set_stop_timeout(environment: Any) -> None:
    environment.stop_timeout = state_of(environment).stop_timeout or environment.parsed_options.drain_timeout


def _scenario(environment: Any) -> tuple[str, Any]:
    classes = environment.user_classes
    if len(classes) != 1:
        names = ", ".join(sorted(c.__name__ for c in classes))
        if environment.parsed_options.headless:
            usage_error(f"-f: one scenario at a time; name its file, or one user class ({names})")
    user_class = classes[0]
    return user_class.__module__.rpartition(".")[2], user_class


def _refuse_early(environment: Any, options: Any) -> None:
    """Check options, prompts, and that a server answers, before any load."""
    from workloads import load_prompts

    state = state_of(environment)
    try:
        check(options, state.kind)
        check_users(state.scenario, state.exact_users, options.num_users, users_of(options, state.kind))
        client_key()
        where = target(environment.host or options.host)
        check_conversations(options, load_prompts(options.prompts, seed=options.seed))
    except ValueError as error:
        usage_error(str(error))
    try:
        connection = Connection(where, connect_timeout_s=min(10.0, options.request_timeout), ca=options.ca or None)
        connection.open()
        connection.close()
    except StreamError as error:
        usage_error(f"--host {environment.host or options.host}: no server there ({error}); start the engine first")


def _on_test_start(environment: Any, **_: Any) -> None:
    state = state_of(environment)
    state.user_numbers = itertools.count()
    # The web UI's form can change the drain timeout.
    _set_stop_timeout(environment)
    if isinstance(environment.runner, MasterRunner):
        master.start(environment)
        return
    try:
        session = _make_session(environment)
    except ValueError as error:
        if environment.web_ui is None and not isinstance(environment.runner, WorkerRunner):
            usage_error(str(error))
        log.error("%s", error)
        if isinstance(environment.runner, WorkerRunner):
            gevent.spawn(environment.runner.quit)
        # Leaves the greenlet that would start the users next; for Locust no test has begun.
        raise gevent.GreenletExit from None
    state.session = session
    process_setup.freeze_garbage()
    if isinstance(environment.runner, WorkerRunner):
        worker.start(environment, session)
    if session.options.duration and not session.admission.sweep:
        gevent.spawn(session.admission.close_on_time)
    watcher = gevent.spawn(_end_when_over, environment, session)
    watcher.link_exception(
        lambda greenlet: session.close(f"the end of the test failed: {_described(greenlet.exception)}")
    )


def _make_session(environment: Any) -> Session:
    """The session of a test that starts now.

    Raises:
        ValueError: options or prompts that cannot be used; one line.
    """
    state, runner, options = state_of(environment), environment.runner, environment.parsed_options
    is_worker = isinstance(runner, WorkerRunner)
    if not is_worker:
        check_users(state.scenario, state.exact_users, runner.target_user_count, users_of(options, state.kind))
    client_key()
    check(options, state.kind)
    return Session(
        options,
        state.scenario,
        state.kind,
        worker.shard(environment),
        host=environment.host or options.host,
        users=lambda: int(runner.target_user_count),
        # The master writes a worker's records.
        capture=None if is_worker else capture_dir(options),
        on_record=lambda record: hooks.fire(environment.events, record),
    )


def _end_when_over(environment: Any, session: Session) -> None:
    """Stop once the last measured request is on disk; a headless run also quits."""
    session.over.wait()
    if isinstance(environment.runner, WorkerRunner):
        worker.report_over(environment, session)
    elif state_of(environment).session is session and not session.stopping:
        # From a separate greenlet, because stop() kills the users and waits for them.
        if environment.web_ui is None:
            environment.runner.quit()
        else:
            environment.runner.stop()


def _on_test_stopping(environment: Any, **_: Any) -> None:
    if isinstance(environment.runner, MasterRunner):
        master.stopping(environment)
    elif session := state_of(environment).session:
        session.stop()


def _on_test_stop(environment: Any, **_: Any) -> None:
    state = state_of(environment)
    if isinstance(environment.runner, MasterRunner):
        master.finish(environment)
    elif session := state.session:
        session.finish()
        if isinstance(environment.runner, WorkerRunner):
            worker.finish(environment, session)
        environment.process_exit_code = exit_code(session)
        state.session = None


def exit_code(session: Session) -> int:
    """0, or Locust's --exit-code-on-error if a measured request failed; never 0 if the capture is incomplete."""
    code = failure_exit_code(session.options)
    if session.failure:
        return code or ExitCode.REGRESSION
    return code if session.failed else ExitCode.DONE


def _on_user_error(user_instance: Any, exception: BaseException, **_: Any) -> None:
    """End the test on an error in the load itself: Locust would log it and continue with missing requests."""
    # Locust fires it with the user, or with the task set of one.
    user = getattr(user_instance, "user", user_instance)
    if session := state_of(user.environment).session:
        session.fail(f"the load itself failed: {_described(exception)}")


def _described(exception: BaseException | None) -> str:
    # Not its repr, which may contain data, such as an encoder's whole input.
    return f"{type(exception).__name__}: {exception}"


def _on_quitting(environment: Any, **_: Any) -> None:
    """Stop the test unless it has stopped already: Locust sets its exit code right after this event."""
    if isinstance(environment.runner, MasterRunner):
        environment.runner.stop(send_stop_to_client=False)
    elif (session := state_of(environment).session) and not session.stopping:
        environment.runner.stop()
