"""Refuses to ship secrets: files with a secret's name, and files that contain a key of this environment."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path

from driver.errors import BenchError
from driver.ship.part import Part
from records.redaction import is_ordinary, is_secret_name

SECRET_NAMES = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "id_rsa*",
    "id_ed25519*",
    ".netrc",
    ".pypirc",
    "*token*.txt",
)
LEAST_CHARS = 8
"""Shorter values, such as that of XDG_SESSION_TYPE, also occur in ordinary files."""


def refuse_secrets(part: Part) -> None:
    """Check that no file has a secret's name or contains the value of a secret of this environment.

    Raises:
        BenchError: one does; the message names the file.
    """
    values = [
        value.encode()
        for name, value in os.environ.items()
        if is_secret_name(name) and len(value) >= LEAST_CHARS and not is_ordinary(value)
    ]
    for name, path in part.files:
        if any(fnmatch.fnmatch(Path(name).name, pattern) for pattern in SECRET_NAMES):
            raise BenchError(f"ship: {name} looks like a secret and is tracked by git; remove it from the repository")
        if values and any(value in path.read_bytes() for value in values):
            raise BenchError(f"ship: {name} holds a key of this environment; remove it from the file")
