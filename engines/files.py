"""Hashes of files, and free disk space."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path


def sha256(path: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def sha256_of_all(files: Iterable[tuple[str, Path]]) -> str:
    """SHA-256 over the names and contents of files, in the order given."""
    total = hashlib.sha256()
    for name, path in files:
        total.update(f"{name} {sha256(path)}\n".encode())
    return total.hexdigest()


def free_at(folder: Path) -> tuple[Path, int]:
    """The folder, or the nearest one above it that exists, and how many bytes are free there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder, shutil.disk_usage(folder).free


def numbers_in(log: Path, pattern: re.Pattern[str]) -> list[int] | None:
    """The numbers in the pattern's groups, from the first matching line of a log; None without a match."""
    try:
        with log.open(encoding="utf-8", errors="replace") as lines:
            found = next((found for line in lines if (found := pattern.search(line))), None)
    except OSError:
        return None
    return None if found is None else [int(number) for number in found.groups()]
