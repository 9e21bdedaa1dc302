"""The driver's errors: each carries one line for the user and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import Signals

from records.exit_codes import ExitCode as ExitCode
from records.redaction import scrub


class BenchError(Exception):
    """One line for the user, and the exit code that goes with it. Nothing measured so far is lost.

    `hint` says how to go on, and ends the line. `profile_must_change` says that the same profile would fail again.
    """

    profile_must_change = False

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILURE, *, hint: str | None = None) -> None:
        message = scrub(message)
        super().__init__(message)
        self.message = message
        self.exit_code = code
        self.hint = hint


class Stopped(BaseException):
    """A signal, raised in the main thread so that every `with` on the way out stops what it started."""

    def __init__(self, sign: Signals) -> None:
        super().__init__(sign.name)
        self.sign = sign
        self.hint: str | None = None

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode.SIGINT if self.sign == Signals.SIGINT else ExitCode.SIGTERM

    @property
    def message(self) -> str:
        return f"stopped by {self.sign.name}; what was measured is kept"


@contextmanager
def writing(path: Path, *, hint: str | None = None) -> Iterator[None]:
    """A write that fails, since the disk is full or the folder read-only, is one line that names the file.

    Raises:
        BenchError: the file cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise BenchError(f"{error.filename or path}: {error.strerror or error}", hint=hint) from None
