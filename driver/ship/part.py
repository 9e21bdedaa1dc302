"""The options of a shipment, and a part of it: its files with their names, and how they are archived."""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from engines.files import sha256

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class ShipOptions:
    """What to ship. `python` ("3.12") and `platforms` (wheel tags) describe the other host; None means as here."""

    source: Path | None = None
    cpu: bool = False
    wheels: bool = True
    demo: bool = False
    python: str | None = None
    platforms: tuple[str, ...] = ()
    data_dir: Path | None = None
    root: Path = ROOT


@dataclass(frozen=True, slots=True)
class Part:
    """One part: (remote path, local path) of each file, and generated text files."""

    name: str
    files: tuple[tuple[str, Path], ...]
    made: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for _, path in self.files if path.is_file())

    @property
    def digest(self) -> str:
        """Hash of names and contents; a part that arrived with the same digest is not sent again."""
        total = hashlib.sha256()
        for name, path in self.files:
            total.update(name.encode() + b"\0" + sha256(path).encode())
        for name, text in sorted(self.made.items()):
            total.update(name.encode() + b"\0" + text.encode())
        return total.hexdigest()


def write_part(tar: tarfile.TarFile, part: Part) -> None:
    """Append a part to an open archive, without owners and times, so that equal files give equal bytes."""
    for name, path in part.files:
        with path.open("rb") as content:
            tar.addfile(_member(name, path.stat().st_size, path.stat().st_mode & 0o755), content)
    for name, text in part.made.items():
        tar.addfile(_member(name, len(text.encode()), 0o644), io.BytesIO(text.encode()))


def _member(name: str, size: int, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, mode
    return member
