"""Keeps engine and load generator off each other's cores, where the profile asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def parse_cores(cores: str) -> set[int]:
    """`"0,2-3"` -> {0, 2, 3}."""
    found: set[int] = set()
    for part in cores.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def are_here(cores: str | None) -> bool:
    """Whether this host has at least one of these cores, or no core is asked for."""
    return not cores or bool(parse_cores(cores) & os.sched_getaffinity(0))


@contextmanager
def pinned(cores: str | None) -> Iterator[None]:
    """Pin the processes that are started inside to these cores. Does nothing if the host has none of them."""
    before = os.sched_getaffinity(0)
    wanted = parse_cores(cores) & before if cores else set()
    if not wanted:
        yield
        return
    os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
