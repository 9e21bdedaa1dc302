"""Guards a night: only one runs at a time, a time limit stops it, and a notification hook cannot block it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from nightly.errors import NightError, TimeLimitError
from records import JsonObject
from records.lock import LockedError, exclusive

HOOK_TIMEOUT_S = 60.0


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold the lock of the nightly comparison. The lock is released when its process ends in any way.

    Raises:
        NightError: another process holds it (exit code 4); the message names the process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with exclusive(path):
            yield
    except LockedError as holder:
        raise NightError(f"another nightly comparison is running ({holder}); lock {path}") from None


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `TimeLimitError` inside the block after `seconds`. No limit for None, or outside the main thread."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(signum: int, frame: FrameType | None) -> None:
        raise TimeLimitError

    before = signal.signal(signal.SIGALRM, ring)
    # 0 would switch the timer off.
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def parse_duration(text: str) -> float:
    """Seconds of `90`, `90s`, `45m`, `3h`.

    Raises:
        ValueError: the format is different, or the number is not positive.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not match or float(match[1]) <= 0:
        raise ValueError(f"time limit {text!r}: use seconds, or a number with s, m or h, such as 3h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def notify(command: str, message: JsonObject, *, timeout_s: float = HOOK_TIMEOUT_S) -> str | None:
    """Run a hook with a JSON object on its standard input. It runs without a shell, because names in it are untrusted.

    Returns:
        The error in one line; None if the hook succeeded. A hook never changes the night's result.
    """
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        return f"notify {command!r}: {error}"
    if not arguments:
        return "notify: an empty command"
    try:
        # Its own process group, so that its child processes can be stopped with it.
        hook = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        return f"notify {arguments[0]!r}: {error.strerror}"
    try:
        hook.communicate(json.dumps(message).encode(), timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return f"notify {arguments[0]!r}: ended after {timeout_s:g} s"
    finally:
        if hook.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(hook.pid, signal.SIGKILL)
            hook.wait()
    return None if hook.returncode == 0 else f"notify {arguments[0]!r}: exit code {hook.returncode}"
