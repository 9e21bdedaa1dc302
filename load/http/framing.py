"""Parses HTTP/1.1 responses: the head, and the three framings of a body (RFC 9112, section 6). Pure.

Locust's dependency geventhttpclient has a parser in C. It takes 2.1 us per chunk of a stream, with its callbacks into
Python; `Body.feed_all` takes 1.2 us.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_HEAD_BYTES = 64 * 1024
_HEX = frozenset(b"0123456789abcdefABCDEF")
_SIZES: dict[bytes, int] = {}
"""Cache of chunk sizes by their digits (never 0, the end), because streams repeat a few sizes."""


class FramingError(ValueError):
    """The bytes are no valid HTTP."""


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers of a response; header names in lower case, repeated ones joined by a comma."""

    status: int
    headers: dict[str, str]
    version: str = "1.1"

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection may be used again (RFC 9112, 9.3); HTTP/1.0 must offer it."""
        options = {option.strip().lower() for option in self.headers.get("connection", "").split(",")}
        return "close" not in options and (self.version != "1.0" or "keep-alive" in options)


def parse_head(data: bytes) -> tuple[Head, bytes] | None:
    """Parse a response's head; returns it with the bytes after it, or None while it is incomplete.

    Raises:
        FramingError: the bytes are no HTTP/1.x head, or it exceeds 64 KiB.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > MAX_HEAD_BYTES or (len(data) >= 5 and not data.startswith(b"HTTP/")):
            raise FramingError(f"not an HTTP/1.1 response: {data[:80]!r}")
        return None
    # A line that begins with white space continues the header before it (RFC 9112, 5.2).
    lines = re.sub(r"\r\n[ \t]+", " ", data[:end].decode("latin-1")).split("\r\n")
    status = re.fullmatch(r"HTTP/(1\.[01]) (\d{3})(?: .*)?", lines[0])
    if status is None:
        raise FramingError(f"not an HTTP/1.1 response: {lines[0][:80]!r}")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise FramingError(f"not a header: {line[:80]!r}")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    head = Head(int(status[2]), headers, status[1])
    if 100 <= head.status < 200 and head.status != 101:
        return parse_head(data[end + 4 :])
    return head, data[end + 4 :]


class Body:
    """Removes the framing of a body, piece by piece. `complete` is true once the framing has ended."""

    def __init__(self, head: Head) -> None:
        self.complete = head.status in (204, 304)
        self.size = 0
        """Bytes fed by `feed_all()`."""
        self.how: str
        """chunked, length, or close (the body ends with the connection)."""
        self._buffer = b""
        self._left = 0
        encoding = head.headers.get("transfer-encoding", "identity").lower()
        length = head.headers.get("content-length")
        if encoding == "chunked":
            self.how = "chunked"
        elif encoding != "identity":
            raise FramingError(f"transfer encoding {encoding!r} was not asked for")
        elif length is not None:
            if not (length.isascii() and length.isdigit()):
                raise FramingError(f"content-length {length!r}")
            self.how, self._left = "length", int(length)
            self.complete = self.complete or self._left == 0
        else:
            self.how = "close"

    def feed(self, data: bytes) -> bytes:
        """Process bytes of the connection; return the body's bytes among them.

        Raises:
            FramingError: a chunk size is invalid, or a chunk has no end.
        """
        if self.complete:
            return b""
        if self.how == "close":
            return data
        if self.how == "length":
            data = data[: self._left]
            self._left -= len(data)
            self.complete = self._left == 0
            return data
        return self._feed_chunked(data)

    def feed_all(self, pieces: Iterable[tuple[int, bytes]], out: list[tuple[int, bytes]]) -> None:
        """Feed stamped pieces; append the body's bytes to `out` with their stamps.

        Raises:
            FramingError: as `feed()`; the bytes before the error are in `out`.
        """
        append, size_of = out.append, _SIZES.get
        between_chunks = self._between_chunks()
        size = 0
        for stamp, data in pieces:
            size += (length := len(data))
            if between_chunks:
                # Fast path: nearly every read of a stream is one complete chunk of a known size.
                end = data.find(b"\r\n", 0, 12)
                if size_of(data[:end]) == length - end - 4 and data.endswith(b"\r\n"):
                    append((stamp, data[end + 2 : -2]))
                    continue
            if content := self.feed(data):
                append((stamp, content))
            between_chunks = self._between_chunks()
        self.size += size

    def _between_chunks(self) -> bool:
        return self.how == "chunked" and not (self._left or self._buffer or self.complete)

    def _feed_chunked(self, data: bytes) -> bytes:
        data = self._buffer + data
        at, out = 0, []
        while True:
            if self._left > 2:
                piece = data[at : at + self._left - 2]
                out.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left > 2:
                    break
            if self._left:
                if len(data) - at < 2:
                    break
                if data[at : at + 2] != b"\r\n":
                    raise FramingError(f"a chunk that does not end where it should: {data[at : at + 20]!r}")
                at += 2
                self._left = 0
            end = data.find(b"\r\n", at)
            if end < 0:
                if len(data) - at > 1024:
                    raise FramingError(f"not a chunk size: {data[at : at + 40]!r}")
                break
            digits = data[at:end].partition(b";")[0].strip()
            if not digits or len(digits) > 15 or not _HEX.issuperset(digits):
                raise FramingError(f"not a chunk size: {data[at:end][:40]!r}")
            size = int(digits, 16)
            if size == 0:
                # Trailers, if any, end with an empty line.
                if data.find(b"\r\n\r\n", end) >= 0:
                    self.complete = True
                    at = len(data)
                elif len(data) - end > MAX_HEAD_BYTES:
                    raise FramingError(f"trailers of more than {MAX_HEAD_BYTES} bytes")
                break
            if len(_SIZES) < 4096:
                _SIZES[digits] = size
            at = end + 2
            self._left = size + 2
        self._buffer = data[at:]
        return b"".join(out)
