"""The response to one request: stamped bytes, whose framing is removed in slices between arrivals."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from load.http.framing import Body, FramingError, Head, parse_head

_DONE = re.compile(rb"(?:^|[\r\n])data:[ \t]*\[DONE\]\s*$")


class End(StrEnum):
    """How the reading of a response ended."""

    COMPLETE = "complete"
    CLOSED = "closed"
    RESET = "reset"
    SILENCE = "silence"
    TOTAL = "total"
    TOO_LARGE = "too_large"
    CANCELLED = "cancelled"
    """The client closed it on purpose (`--cancel-share`)."""
    DONE = "done"
    """`[DONE]` arrived, but the framing did not end soon after it."""


@dataclass(slots=True)
class Reply:
    """A response, undecoded. A stamp is the arrival of a read's last bytes in monotonic ns (`load.http.stamps`)."""

    sent_ns: int
    end_ns: int = 0
    connect_ns: int | None = None
    end: End = End.CLOSED
    head: Head | None = None
    framing_error: str | None = None
    content: list[tuple[int, bytes]] = field(default_factory=list)
    """The part of the body that `unframe()` has processed, without framing."""
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    """Bytes of the connection that `unframe()` has not processed."""
    raw: list[bytes] | None = None
    """All bytes of the connection if they are kept, else None."""
    reads: int = 0
    kernel_stamps: bool = False
    """Whether the stamps come from the kernel; otherwise they are the times of the reads."""
    last_ns: int = 0
    """The stamp of the last read that `unframe()` has processed."""
    _start: bytes = b""
    _body: Body | None = None

    def unframe(self) -> None:
        """Remove the framing of the bytes that have arrived since the last call."""
        pending = self.pending
        if not pending:
            return
        self.last_ns = pending[-1][0]
        self.reads += len(pending)
        if self.raw is not None:
            self.raw += [data for _, data in pending]
        if not self.framing_error:
            try:
                if self._body is None:
                    self._take_head()
                if self._body is not None:
                    self._body.feed_all(pending, self.content)
            except FramingError as error:
                self.framing_error = str(error)
        # Keep the same list object, because the reader appends to it.
        pending.clear()

    def _take_head(self) -> None:
        """Parse the head if it is complete, and leave the bytes after it in `pending`."""
        for number, (stamp, data) in enumerate(self.pending, start=1):
            self._start += data
            parsed = parse_head(self._start)
            if parsed is not None:
                self.head, rest = parsed
                self._body, self._start = Body(self.head), b""
                self.pending[:number] = [(stamp, rest)]
                return

    @property
    def size(self) -> int:
        """Bytes of the body so far."""
        return self._body.size if self._body else 0

    @property
    def framed(self) -> bool:
        """Whether the framing proves that the body is complete: a last chunk, or the announced number of bytes."""
        return self._body is not None and self._body.complete

    @property
    def says_done(self) -> bool:
        """Whether the body so far ends with the event `[DONE]`."""
        if not self.content or (b"]" not in self.content[-1][1][-16:] and len(self.content[-1][1]) > 16):
            return False
        tail = b""
        for _, data in reversed(self.content[-16:]):
            tail = data[-64:] + tail
            if len(tail) >= 64:
                break
        return _DONE.search(tail) is not None

    @property
    def how(self) -> str | None:
        """The framing of the body; None before its head has arrived."""
        return self._body.how if self._body else None

    def finish(self) -> None:
        """Settle the end: a body that ends with the connection is complete once that is closed."""
        self.unframe()
        if self.framed or (self.end is End.CLOSED and self.how == "close"):
            self.end = End.COMPLETE
