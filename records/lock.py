"""Holds a lock file while a process works on what only one process may change."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


class LockedError(Exception):
    """Another process holds the lock; the message names it (`pid 123`), or says "unknown"."""


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock of a file inside the block. The lock ends with its process, however that ends.

    Raises:
        LockedError: another process holds it.
        OSError: the file cannot be written.
    """
    try:
        with FileLock(path, timeout=0):
            _write_pid(path)
            yield
    except Timeout:
        with path.open(encoding="utf-8", errors="replace") as holder:
            raise LockedError(re.sub(r"[^ -~]", "", holder.read(80)) or "unknown") from None


def _write_pid(path: Path) -> None:
    try:
        path.write_text(f"pid {os.getpid()}", encoding="utf-8")
    except OSError as error:
        # A full disk shows at the write, whose error names no file.
        error.filename = str(path)
        raise
