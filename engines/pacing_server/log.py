"""The pacing server's log of each request, kept until it is fetched."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from engines.pacing_server.clock import Stream

KEPT_REQUESTS = 500_000
FIELDS = ("received_ns", "first_ns", "last_ns", "chunks", "tokens", "late_ns", "finished")


class Log:
    """Rows of ended requests, and counts of the others."""

    def __init__(self) -> None:
        self._rows: deque[tuple[int, ...]] = deque(maxlen=KEPT_REQUESTS)
        self._open = self._most_open = self._stalled = self._unfinished = 0

    def began(self) -> None:
        self._open += 1
        self._most_open = max(self._most_open, self._open)

    def stalled(self) -> None:
        """Count a chunk that the client did not accept in time."""
        self._stalled += 1

    def ended(self, stream: Stream, *, finished: bool) -> None:
        self._open -= 1
        self._unfinished += not finished
        self._rows.append(
            (stream.received, stream.first, stream.last, stream.sent, stream.tokens, stream.late, finished)
        )

    def hand_over(self) -> dict[str, Any]:
        """Return and clear all rows since the last call."""
        report = {
            "requests": [dict(zip(FIELDS, row, strict=True)) for row in self._rows],
            "open": self._open,
            "most_open": self._most_open,
            "stalled": self._stalled,
            "unfinished": self._unfinished,
            "cpu_s": time.process_time(),
        }
        self._rows.clear()
        self._most_open, self._stalled, self._unfinished = self._open, 0, 0
        return report
