"""The exit codes of enginebench: the only list. Part of the contract, since the history keeps a night's code."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What enginebench exits with."""

    DONE = 0
    REGRESSION = 1
    """A regression was confirmed, or measured requests failed."""
    USAGE = 2
    VOID = 3
    FAILURE = 4
    """Engine, host or run failure."""
    SIGINT = 130
    SIGTERM = 143
