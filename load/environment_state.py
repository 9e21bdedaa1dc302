"""The state of the load in one process: one typed object on Locust's environment."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from load.distributed.join import JoinGuard
from load.distributed.progress import Progress
from load.schedule.tickets import Shard
from load.session import Session


@dataclass
class State:
    """The state that the listeners of Locust's events share."""

    scenario: str
    kind: str
    """The shape of the load, `ChatUser.kind`."""
    exact_users: int | None
    """The number of users in the scenario's name; None if any number is allowed."""
    stop_timeout: float | None
    """Locust's own --stop-timeout if given; else None, and each test's drain timeout applies."""
    session: Session | None = None
    """The running test; always None on a master."""
    progress: Progress | None = None
    """The running distributed test, on its master."""
    shard: Shard | None = None
    """A worker's part of the prompts and counts."""
    acknowledged: dict[str, Any] = field(default_factory=dict)
    """On a master: the shard that each worker has confirmed."""
    join_guard: JoinGuard | None = None
    """On a master: decides which workers may join."""
    user_numbers: Iterator[int] = field(default_factory=itertools.count)
    """Numbers the users of one test from 0."""

    @property
    def test(self) -> Session | Progress | None:
        """The running test of this process, whole or distributed."""
        return self.progress or self.session


def attach(environment: Any, state: State) -> None:
    """Put the state on a Locust environment."""
    environment.enginebench = state


def state_of(environment: Any) -> State:
    """The state on a Locust environment."""
    state: State = environment.enginebench
    return state
