"""Keeps nights from harming each other: a lock, a time limit, and a hook that cannot hang the night."""

from __future__ import annotations

import contextlib
import fcntl
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

HOOK_TIMEOUT_S = 60.0


@contextlib.contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold the lock of the nightly comparison. The lock ends with its process, however that ends.

    Raises:
        NightError: another one holds it (exit code 4), naming it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = re.sub(r"[^ -~]", "", lock.read(80))
            raise NightError(f"another nightly comparison is running ({holder or 'unknown'}); lock {path}") from None
        lock.truncate(0)
        lock.write(f"pid {os.getpid()}")
        lock.flush()
        yield


@contextlib.contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `TimeLimitError` inside the block after so many seconds; None or another thread than the main: no limit."""
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
        ValueError: something else, or nothing positive.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not match or float(match[1]) <= 0:
        raise ValueError(f"time limit {text!r}: use seconds, or a number with s, m or h, such as 3h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def notify(command: str, message: JsonObject, *, timeout_s: float = HOOK_TIMEOUT_S) -> str | None:
    """Run a hook with a JSON object on its standard input; no shell ever sees a name that came from a run.

    Returns:
        What went wrong in one line, None where nothing did. A hook never changes how the night ended.
    """
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        return f"notify {command!r}: {error}"
    if not arguments:
        return "notify: an empty command"
    try:
        # A group of its own, so that what the hook starts ends with it.
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
