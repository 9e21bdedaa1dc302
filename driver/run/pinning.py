"""Pins engine and load generator to separate cores, where the profile asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def parse_cores(cores: str) -> set[int]:
    """`"0,2-3"` -> {0, 2, 3}."""
    numbers: set[int] = set()
    for part in cores.split(","):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def are_here(cores: str | None) -> bool:
    """Whether this host has at least one of these cores; true if no cores are given."""
    return not cores or bool(parse_cores(cores) & os.sched_getaffinity(0))


@contextmanager
def pinned(cores: str | None) -> Iterator[None]:
    """Pin the processes that start during the block to these cores. Does nothing if the host has none of them."""
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
