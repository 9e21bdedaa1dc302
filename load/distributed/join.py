"""Decides which workers may join a master: only those of its own run, and only between tests.

Two runs on one host share Locust's default port, and Locust takes any worker that connects. A worker of another run
would take users, and so load, from this run's workers. So a worker joins in two steps. Locust's worker sends
`client_ready`; the master acknowledges it but holds it back. Once the worker has run its `init`, it sends `JOIN` with
its run's token; only then does Locust see it.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from typing import Any

from locust import __version__
from locust.rpc.protocol import Message
from locust.runners import MasterRunner

from load.distributed.messages import JOIN, REFUSED
from load.process_setup import is_forked

log = logging.getLogger("enginebench")

TOKEN = "ENGINEBENCH_RUN_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with one token for the master and the workers that are started by hand."""
_FORK_TOKEN = secrets.token_hex(8)
"""Created when the locustfile is imported, so a worker forked by `--processes` has its master's token."""
_free_port: int | None = None


def own_port(arguments: list[str], variables: list[str]) -> int | None:
    """A free port for a master that forks its workers; None if a port is given, or the workers join another master.

    Args:
        arguments: Locust's command line.
        variables: names of environment variables that Locust reads, such as LOCUST_MASTER_PORT.
    """
    global _free_port
    given = " ".join(["", *arguments, *("--" + name[7:].lower().replace("_", "-") for name in variables)])
    if " --processes" not in given or " --worker" in given or " --master-port" in given or " --master-bind-" in given:
        return None
    if _free_port is None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            _free_port = int(free.getsockname()[1])
    return _free_port


def use_own_port(parser: Any) -> None:
    """Make a free port the default of this run, so that two runs on one host do not meet."""
    if port := own_port(sys.argv[1:], [name for name in os.environ if name.startswith("LOCUST_")]):
        parser.set_defaults(master_port=port, master_bind_port=port)


def credentials(scenario: str) -> dict[str, str]:
    """The values by which a worker identifies itself to its master."""
    return {
        "fork_token": _FORK_TOKEN if is_forked() else "",
        "token": os.environ.get(TOKEN, ""),
        "scenario": scenario,
    }


def refusal(shown: Mapping[str, str], *, scenario: str, forks: bool) -> str | None:
    """Why a worker may not join; None if it may.

    Args:
        shown: the worker's `credentials`.
        scenario: the master's scenario.
        forks: whether the master forked its own workers (`--processes`).
    """
    own = os.environ.get(TOKEN, "")
    same_run = shown.get("fork_token") == _FORK_TOKEN if forks else shown.get("token", "") == own
    if not same_run and not (own and shown.get("token") == own):
        return (
            f"it belongs to another run; give each run its own --master-port, or the same {TOKEN} to all its processes"
        )
    if shown.get("scenario") != scenario:
        return f"it runs {shown.get('scenario')}, the master runs {scenario}"
    return None


class JoinGuard:
    """Holds back a worker's messages to Locust's master until the worker may join."""

    def __init__(self, runner: MasterRunner, *, scenario: str, forks: bool, waits: bool) -> None:
        """`waits`: whether a worker that connects during a test waits for its end (web UI) or is refused (headless)."""
        self._runner, self._scenario, self._forks, self._waits = runner, scenario, forks, waits
        self._pass_on = runner.handle_message
        self._ready: dict[str, Message] = {}
        self._joined: set[str] = set()
        self._approved: list[str] = []
        self._closed = False
        # Workers that connected before this guard was created.
        for client_id in list(runner.clients):
            del runner.clients[client_id]
            self._ready[client_id] = Message("client_ready", __version__, client_id)  # type: ignore[no-untyped-call]
        runner.handle_message = self.handle_message  # type: ignore[method-assign]

    def close(self) -> None:
        """Let no worker join: a test begins."""
        self._closed = True

    def open(self) -> None:
        """Let workers join again, first those that connected during the test."""
        self._closed = False
        waiting, self._approved = self._approved, []
        for client_id in waiting:
            self._admit(client_id)

    def handle_message(self, client_id: str, msg: Message) -> None:
        """Handle a worker's message; Locust gets it if the worker has joined."""
        if msg.type == JOIN:
            self._join(client_id, msg.data)
        elif client_id in self._joined or msg.type == "locustfile":
            self._pass_on(client_id, msg)
        elif msg.type == "client_ready":
            self._ready[client_id] = msg
            # Without an acknowledgement, Locust's worker never reaches its `init`.
            self._runner.send_message("ack", client_id=client_id)

    def _join(self, client_id: str, shown: Mapping[str, str]) -> None:
        reason = refusal(shown, scenario=self._scenario, forks=self._forks)
        if reason is None and self._closed and client_id not in self._joined:
            if self._waits:
                self._approved.append(client_id)
                return
            reason = "the test has already begun"
        if reason is not None:
            log.error("refused worker %s: %s", client_id, reason)
            self._runner.send_message(REFUSED, {"reason": reason}, client_id=client_id)
            return
        self._admit(client_id)

    def _admit(self, client_id: str) -> None:
        self._joined.add(client_id)
        if ready := self._ready.pop(client_id, None):
            self._pass_on(client_id, ready)
