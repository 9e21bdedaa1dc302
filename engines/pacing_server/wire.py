"""One client's connection to the pacing server: parses complete requests, and buffers unsent bytes."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from engines.pacing_server.clock import Stream

MAX_HEAD_BYTES = 64 * 1024
MAX_REQUEST_BYTES = 64 * 2**20


class TooLargeError(Exception):
    """A request is rejected because its head or body is too long."""


class Request(NamedTuple):
    """A complete request; `received_ns` is monotonic, just after its last byte was read."""

    method: bytes
    path: str
    body: bytes
    received_ns: int


class Connection:
    """A non-blocking socket, its unread request bytes, its unsent answer bytes, and the stream that it carries."""

    __slots__ = ("_data", "_want", "closing", "out", "socket", "stream")

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._data = b""
        self._want = 0
        self.out = b""
        self.stream: Stream | None = None
        self.closing = False

    def feed(self, data: bytes) -> None:
        """Add bytes from the client."""
        self._data += data

    def next_request(self) -> Request | None:
        """The first request in the buffer; None while it is incomplete.

        Raises:
            TooLargeError: the request is too long.
        """
        if not self._want:
            end = self._data.find(b"\r\n\r\n")
            if end < 0:
                if len(self._data) > MAX_HEAD_BYTES:
                    raise TooLargeError(f"head over {MAX_HEAD_BYTES} bytes")
                return None
            self._want = end + 4 + _content_length(self._data[:end])
        if len(self._data) < self._want:
            if self._want > MAX_REQUEST_BYTES:
                raise TooLargeError("request over 64 MiB")
            return None
        received = time.monotonic_ns()
        request, self._data = self._data[: self._want], self._data[self._want :]
        self._want = 0
        head, _, body = request.partition(b"\r\n\r\n")
        method, _, rest = head.partition(b" ")
        return Request(method, rest.partition(b" ")[0].decode("latin-1"), body, received)

    def flush(self) -> bool:
        """Send buffered bytes; returns whether all were sent.

        Raises:
            OSError: the client is gone.
        """
        try:
            while self.out:
                self.out = self.out[self.socket.send(self.out) :]
        except BlockingIOError:
            return False
        return True


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    return 0
