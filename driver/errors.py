"""The driver's exit codes, and the error that carries one."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What run_bench.py exits with (design: the only list)."""

    DONE = 0
    REGRESSION = 1
    """A regression was confirmed, or measured requests failed."""
    USAGE = 2
    VOID = 3
    FAILURE = 4
    """Engine, host or run failure."""
    SIGINT = 130
    SIGTERM = 143


class BenchError(Exception):
    """One line for the user, and the exit code that goes with it. Nothing measured so far is lost."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILURE) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = code
