"""How a night ended, in one line."""

from __future__ import annotations

from driver.errors import BenchError, ExitCode, Stopped
from nightly.guard import TimeLimitError
from nightly.history.store import HistoryError


def in_words(error: BaseException) -> tuple[str, int]:
    """One line and an exit code for whatever ended a night."""
    if isinstance(error, TimeLimitError):
        return "the time limit passed before the night was done; what was measured is kept", int(ExitCode.FAILURE)
    if isinstance(error, BenchError):
        return error.message.splitlines()[0], error.exit_code
    if isinstance(error, HistoryError):
        return str(error), int(ExitCode.FAILURE)
    if isinstance(error, OSError):
        return f"{error.filename or ''} {error.strerror or error}".strip(), int(ExitCode.FAILURE)
    if isinstance(error, Stopped):
        return f"stopped by {error.sign.name}", int(error.exit_code)
    return f"{type(error).__name__}: {error}", int(ExitCode.FAILURE)
