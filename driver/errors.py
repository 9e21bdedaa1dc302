"""The driver's errors: each carries one line for the user and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import Signals

from records.exit_codes import ExitCode as ExitCode
from records.redaction import scrub


class BenchError(Exception):
    """An error with one line for the user and an exit code. Measurements so far are kept.

    `hint` says how to continue, and is the end of the line. `profile_must_change`: the same profile would fail again.
    """

    profile_must_change = False

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILURE, *, hint: str | None = None) -> None:
        message = scrub(message)
        super().__init__(message)
        self.message = message
        self.exit_code = code
        self.hint = hint


class Stopped(BaseException):
    """A signal, raised in the main thread so that every `with` block cleans up."""

    def __init__(self, sign: Signals) -> None:
        super().__init__(sign.name)
        self.sign = sign
        self.hint: str | None = None

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.SIGINT if self.sign == Signals.SIGINT else ExitCode.SIGTERM

    @property
    def message(self) -> str:
        return f"stopped by {self.sign.name}; the measurements so far are kept"


@contextmanager
def writing(path: Path, *, hint: str | None = None) -> Iterator[None]:
    """Convert a failed write (disk full, folder read-only) into one line that names the file.

    Raises:
        BenchError: the file cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise BenchError(f"{error.filename or path}: {error.strerror or error}", hint=hint) from None
