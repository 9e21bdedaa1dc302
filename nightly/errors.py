"""Errors that end a night, and the message and exit code of any other error."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from records.exit_codes import ExitCode


class NightError(Exception):
    """The night cannot continue: one line for the user, and the exit code."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILURE) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = code


class TimeLimitError(BaseException):
    """The time limit passed. Not an `Exception`, so that no handler catches it before every `with` has cleaned up."""


@runtime_checkable
class _WithExitCode(Protocol):
    """An error of the driver or of the night, with its message and exit code."""

    message: str
    exit_code: ExitCode


def describe_error(error: BaseException) -> tuple[str, int]:
    """One line and an exit code for the error that ended a night."""
    if isinstance(error, TimeLimitError):
        return "the time limit passed before the night ended; the measurements so far are kept", int(ExitCode.FAILURE)
    if isinstance(error, _WithExitCode):
        return error.message.splitlines()[0], int(error.exit_code)
    if isinstance(error, OSError):
        return f"{error.filename or ''} {error.strerror or error}".strip(), int(ExitCode.FAILURE)
    if isinstance(error, ValueError):
        return str(error), int(ExitCode.FAILURE)
    return f"{type(error).__name__}: {error}", int(ExitCode.FAILURE)
