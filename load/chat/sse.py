"""Decodes server-sent events: bytes in, events out. Pure: no I/O, no clock.

Follows the event stream format of the WHATWG HTML standard (section 9.2) on bytes: LF, CR and CRLF never occur inside
a UTF-8 character, so text may be split anywhere and U+2028 is no line end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Event(NamedTuple):
    """One dispatched event: its type ("message" unless named) and its data, lines joined by LF."""

    kind: str
    data: bytes


class SSEDecoder:
    """Splits a byte stream into events. `feed()` accepts any split of the bytes; `flush()` ends the stream."""

    def __init__(self) -> None:
        self._buffer = b""
        self._data: list[bytes] = []
        self._kind = b""
        self._after_cr = False
        self._at_start = True

    def feed(self, data: bytes) -> list[Event]:
        """Add bytes; returns the events that they complete."""
        if self._at_start and data:
            self._buffer += data
            if len(self._buffer) < 3 and b"\xef\xbb\xbf".startswith(self._buffer):
                return []
            data, self._buffer = self._buffer.removeprefix(b"\xef\xbb\xbf"), b""
            self._at_start = False
        if self._after_cr and data:
            # The second half of a CRLF that was split.
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if not data:
            return []
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return list(self._dispatch(lines))

    def flush(self) -> list[Event]:
        """End the stream. An event that lacks only its blank line still counts, because some servers omit it."""
        lines, self._buffer = ([self._buffer] if self._buffer else []), b""
        return list(self._dispatch([*lines, b""]))

    @property
    def between_events(self) -> bool:
        """Whether all bytes so far are dispatched, so that the next byte begins a new event."""
        return not (self._buffer or self._data or self._kind or self._after_cr or self._at_start)

    @property
    def pending_bytes(self) -> int:
        """Number of buffered bytes of an incomplete event."""
        return len(self._buffer) + sum(map(len, self._data))

    def _dispatch(self, lines: list[bytes]) -> Iterator[Event]:
        for line in lines:
            if not line:
                if self._data:
                    yield Event(self._kind.decode("utf-8", "replace") or "message", b"\n".join(self._data))
                self._data, self._kind = [], b""
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line.startswith(b"event:"):
                self._kind = line[6:].strip()
            elif line.startswith(b"error:"):
                # Older llama.cpp servers sent errors in this form, outside the standard.
                yield Event("error", line[6:].strip())
            elif line == b"data":
                self._data.append(b"")
            # Comments (":"), id:, retry: and unknown fields have no part of an answer.
