"""Writes a record to disk as soon as its request ends: one line, one write, no buffer that a kill could lose."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from records import SCHEMA_VERSION, CellFolder, Record, set_aside, write_json
from records.redaction import scrub_bytes


class CaptureError(OSError):
    """The capture cannot be written any more; the records so far stay."""


class Capture:
    """The files of one cell. Without a folder, records are only counted."""

    def __init__(self, path: Path | None, *, append: bool) -> None:
        self._folder = CellFolder(path) if path else None
        self._file: int | None = None
        self.counts: dict[str, Any] = {
            "warmup": 0,
            "measure": 0,
            "drain": 0,
            "ok": 0,
            "error": 0,
            "cancelled": 0,
            "errors_by_kind": {},
        }
        if self._folder is None:
            return
        if append:
            # The earlier scenario.json describes the client of the records so far.
            set_aside(self._folder.scenario)
        else:
            self._folder.set_aside()
        try:
            self._file = os.open(self._folder.requests, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            self._remove_torn_line()
        except OSError as error:
            raise CaptureError(f"{self._folder.requests}: {error.strerror}") from None

    @property
    def folder(self) -> Path | None:
        return self._folder.path if self._folder else None

    def _remove_torn_line(self) -> None:
        """Remove an incomplete last line, left by a kill, before another line is appended."""
        assert self._folder is not None
        assert self._file is not None
        with self._folder.requests.open("rb") as existing:
            size = existing.seek(0, os.SEEK_END)
            kept = size
            while kept:
                start = max(0, kept - 65536)
                existing.seek(start)
                newline = existing.read(kept - start).rfind(b"\n")
                if newline >= 0:
                    kept = start + newline + 1
                    break
                kept = start
        if kept != size:
            os.ftruncate(self._file, kept)

    def write(self, record: Record) -> None:
        """Append a record.

        Raises:
            CaptureError: the disk is full or gone; the file ends with the last complete line.
        """
        if self._file is not None and self._folder is not None:
            line = record.to_json_line().encode("ascii")
            before = os.fstat(self._file).st_size
            try:
                written = os.write(self._file, line)
                while written < len(line):
                    written += os.write(self._file, line[written:])
            except OSError as error:
                os.ftruncate(self._file, before)
                raise CaptureError(f"{self._folder.requests}: {error.strerror}; the earlier records are kept") from None
        counts = self.counts
        counts[record.phase] += 1
        if record.measured:
            counts[record.status] += 1
            if record.error:
                kind = str(record.error["kind"])
                counts["errors_by_kind"][kind] = counts["errors_by_kind"].get(kind, 0) + 1

    def keep_raw(self, record: Record, pieces: list[bytes]) -> None:
        """Keep the bytes of a failed request, for a bug report to the engine's authors."""
        if self._folder is None or not pieces:
            return
        folder = self._folder.path / "raw"
        folder.mkdir(exist_ok=True)
        (folder / f"{record.id}.http").write_bytes(scrub_bytes(b"".join(pieces)))

    def write_scenario(self, **fields: Any) -> None:
        """Write scenario.json atomically: at the start with `complete` false, at the end with the result."""
        if self._folder is None:
            return
        try:
            write_json(self._folder.scenario, {"schema": SCHEMA_VERSION, **fields, "counts": self.counts})
        except OSError as error:
            raise CaptureError(f"{self._folder.scenario}: {error.strerror}") from None

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
