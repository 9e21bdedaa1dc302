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
            path.write_text(f"pid {os.getpid()}", encoding="utf-8")
            yield
    except Timeout:
        with path.open(encoding="utf-8", errors="replace") as holder:
            raise LockedError(re.sub(r"[^ -~]", "", holder.read(80)) or "unknown") from None
