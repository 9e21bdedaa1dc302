"""Reads and writes JSON files. A reader sees the old file or the whole new one, never a part."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import orjson

from records.redaction import scrubbed

JsonObject = dict[str, Any]


def read_json_lines(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """Yield (line number, object) for each line. Skips a last line without newline, which a kill cut off.

    Raises:
        ValueError: another line is not a JSON object; the message names file and line.
    """
    require_regular(path)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                value = _loads(line)
                if not isinstance(value, dict):
                    raise ValueError(f"a JSON object was expected, not {type(value).__name__}")
            except ValueError as error:
                if not line.endswith(b"\n"):
                    return
                raise ValueError(f"{path}:{number}: {error}") from None
            yield number, value


def _loads(line: bytes) -> Any:
    """Parse a line, also one with half a surrogate pair or an infinite number, which orjson refuses."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return parse_json(line)


def parse_json(text: str | bytes) -> Any:
    """Parse JSON from outside; NaN and infinity become None.

    Raises:
        ValueError: it is not JSON, or nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def require_regular(path: Path) -> None:
    """Reject what is there but is no file: reading a pipe would never end.

    Raises:
        ValueError: it is a folder, a pipe or a device.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: is not a regular file")


def write_json(path: Path, value: Any) -> None:
    """Write JSON without any known secret, whole or not at all (see `write_text`)."""
    write_text(path, json.dumps(scrubbed(value), indent=2, ensure_ascii=True, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8, whole or not at all (see `replacing`)."""
    with replacing(path) as out:
        out.write(text)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Open a text file that takes the place of `path` once the block has ended without an error.

    A reader sees the old file or the whole new one, also after a kill or on a full disk.

    Raises:
        OSError: the file cannot be written; `filename` is `path`.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    except OSError as error:
        # The error of a full disk names no file.
        error.filename = str(path)
        raise
    finally:
        # This fails too on a read-only disk; the first error is the one to report.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def set_aside(path: Path) -> Path | None:
    """Rename a file of an earlier attempt to the next free `<stem>.partial-<k><suffix>`; None if there is no file."""
    if not path.exists():
        return None
    k = 1
    while (aside := path.with_name(f"{path.stem}.partial-{k}{path.suffix}")).exists():
        k += 1
    path.rename(aside)
    return aside


def earlier_versions(folder: Path, stem: str) -> list[JsonObject]:
    """The JSON files that `set_aside` kept, the earliest first."""
    paths = folder.glob(f"{stem}.partial-*.json")
    return [read_json(path) for path in sorted(paths, key=lambda path: (len(path.name), path.name))]


def read_json(path: Path) -> JsonObject:
    """Read one JSON object.

    Raises:
        ValueError: the file does not hold one; the message names it.
        OSError: it cannot be read.
    """
    require_regular(path)
    try:
        value = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: a JSON object was expected")
    return value
