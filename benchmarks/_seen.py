"""What the benchmark's own clients (floor, naive) write down of each request, and the body that all of them send."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from driver.calibration import Seen


class SeenFile:
    """Keeps requests in memory and writes them at the end: while it measures, that costs a client nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: list[tuple[Any, ...]] = []

    def add(self, sent_ns: int, arrivals: list[int], stamps: list[int], tokens: int | None) -> None:
        self._rows.append((sent_ns, arrivals, stamps, tokens))

    def write(self) -> None:
        self._path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in self._rows))


def read_seen(path: Path) -> list[Seen]:
    """The requests that a client has written down."""
    return [Seen(*orjson.loads(line)) for line in path.read_bytes().splitlines()]


def body(model: str, tokens: int, characters: int = 400) -> bytes:
    """A request for `tokens` tokens, its prompt `characters` long."""
    request = {
        "model": model,
        "messages": [{"role": "user", "content": "word " * (characters // 5)}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": tokens,
        "temperature": 0,
    }
    return orjson.dumps(request)
