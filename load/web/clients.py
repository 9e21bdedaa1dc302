"""Reports the health of the load processes to the web UI."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from load.environment_state import state_of
from load.session import Session

REPORT = "enginebench"
"""The key of the health figures in Locust's worker reports."""


class Client:
    """Measures the health of this process since the last call."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.monotonic()
        self._share: float | None = None

    def look(self, session: Session | None) -> dict[str, Any]:
        """The health of this process; values are None while no test runs."""
        cpu, wall = time.process_time(), time.monotonic()
        if wall - self._wall >= 0.9:
            self._share = (cpu - self._cpu) / (wall - self._wall)
            self._cpu, self._wall = cpu, wall
        health = session.health.recent() if session is not None else {}
        return {"cpu_share": self._share, **health}


class WorkerReport:
    """Adds a worker's health to its regular report."""

    def __init__(self, environment: Any) -> None:
        self._environment, self._client = environment, Client()

    def report(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        data[REPORT] = self._client.look(state_of(self._environment).session)


def known(clients: Iterable[dict[str, Any]], name: str) -> list[Any]:
    """The values of a figure, from every client that has it."""
    return [client[name] for client in clients if client.get(name) is not None]


def total(clients: Iterable[dict[str, Any]], name: str) -> int | None:
    """The sum over the clients; None if no client has it."""
    values = known(clients, name)
    return int(sum(values)) if values else None
