"""One streaming request over one socket: stamp what arrives, keep the bytes, understand them later.

The watcher below runs in the event loop itself for every read of every stream: a clock, a recv and an append. JSON is
decoded only after a stream has ended, elsewhere, so that no stream's decoding delays another's stamps.
"""

from __future__ import annotations

import contextlib
import socket as socket_module
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

import gevent
from gevent import socket
from gevent.hub import Waiter, get_hub
from gevent.ssl import SSLContext, SSLWantReadError, create_default_context

from locustfiles._http import Body, FramingError, Head, parse_head
from locustfiles._idle import when_idle
from records import ErrorKind

RECV_BYTES = 16 * 1024
"""Small enough that the allocator never goes back to the system for it."""
STALE_NS = 250_000_000
LOOK_EVERY = 128
"""Reads whose framing is taken off together: often enough that it never holds the event loop for long."""
LOOK_AT_ONCE = 1024
"""Reads that may wait for an idle event loop; with more the loop has none to spare, and memory counts."""
MAX_BODY_BYTES = 512 * 2**20


class End(StrEnum):
    """How the reading of a response ended."""

    COMPLETE = "complete"
    CLOSED = "closed"
    RESET = "reset"
    SILENCE = "silence"
    TOTAL = "total"
    TOO_LARGE = "too_large"


class StreamError(Exception):
    """A request that failed before a response could be read; carries its kind."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go. `path` is what the base URL has before `/v1`."""

    host: str
    port: int
    tls: bool
    path: str

    @classmethod
    def parse(cls, url: str) -> Target:
        """Take a base URL apart, with or without a trailing `/v1`.

        Raises:
            ValueError: it is no http(s) URL.
        """
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r}: a URL such as http://127.0.0.1:8080 was expected")
        tls = parts.scheme == "https"
        path = parts.path.rstrip("/").removesuffix("/v1")
        return cls(parts.hostname, parts.port or (443 if tls else 80), tls, path)

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


@dataclass(slots=True)
class Reply:
    """What came back, undecoded. Stamps are monotonic ns, taken at the read that brought the bytes."""

    sent_ns: int
    end_ns: int = 0
    connect_ns: int | None = None
    end: End = End.CLOSED
    head: Head | None = None
    framing_error: str | None = None
    content: list[tuple[int, bytes]] = field(default_factory=list)
    """The body's bytes without their framing, as far as `unframe()` has come."""
    pending: list[tuple[int, bytes]] = field(default_factory=list)
    """Bytes of the connection that `unframe()` has not seen."""
    raw: list[bytes] | None = None
    """All bytes of the connection, where they are to be kept."""
    reads: int = 0
    last_ns: int = 0
    """The last read that `unframe()` has seen."""
    _start: bytes = b""
    _body: Body | None = None

    def unframe(self) -> None:
        """Take the framing off what has come since the last call."""
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
        # The same list: the reader goes on appending to it.
        pending.clear()

    def _take_head(self) -> None:
        """Parse the head if it is whole by now, and leave in `pending` what came after it."""
        for number, (stamp, data) in enumerate(self.pending, start=1):
            self._start += data
            found = parse_head(self._start)
            if found is not None:
                self.head, rest = found
                self._body, self._start = Body(self.head), b""
                self.pending[:number] = [(stamp, rest)]
                return

    @property
    def size(self) -> int:
        """Bytes of the body so far."""
        return self._body.size if self._body else 0

    @property
    def framed(self) -> bool:
        """Whether the framing vouches for the body's end: a last chunk, or as many bytes as were announced."""
        return self._body is not None and self._body.complete

    @property
    def how(self) -> str | None:
        """How the body is framed; None before its head has come."""
        return self._body.how if self._body else None

    def finish(self) -> None:
        """Everything has come: a body that only the end of the connection ends is complete now."""
        self.unframe()
        if self.framed or (self.end is End.CLOSED and self.how == "close"):
            self.end = End.COMPLETE


class Connection:
    """A connection kept alive between the requests of one user."""

    def __init__(self, target: Target, *, connect_timeout_s: float = 10.0, keep_raw: bool = False) -> None:
        self._target, self._keep_raw = target, keep_raw
        self._connect_timeout_s = connect_timeout_s
        self._socket: Any = None

    def open(self) -> int | None:
        """Make sure of a live connection; returns what a new one cost in ns, None where the old one lives.

        Raises:
            StreamError: connect_failed.
        """
        if self._socket is not None:
            if self._is_quiet():
                return None
            self.close()
        started = time.monotonic_ns()
        try:
            with gevent.Timeout(self._connect_timeout_s, TimeoutError("timed out")):
                made = socket.create_connection((self._target.host, self._target.port))
                made.setsockopt(socket_module.IPPROTO_TCP, socket_module.TCP_NODELAY, 1)
                if self._target.tls:
                    made = _tls_context().wrap_socket(made, server_hostname=self._target.host)
        except (OSError, TimeoutError) as error:
            where = f"{self._target.host}:{self._target.port}"
            raise StreamError(ErrorKind.CONNECT_FAILED, f"{where}: {_words(error)}") from None
        self._socket = made
        return time.monotonic_ns() - started

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _is_quiet(self) -> bool:
        """Whether the kept connection can carry a request: nothing unread on it, and not closed by the server."""
        try:
            if self._target.tls:
                self._socket.setblocking(False)
                try:
                    self._socket.read(1)
                finally:
                    self._socket.setblocking(True)
            else:
                self._socket._sock.recv(1, socket_module.MSG_PEEK)
        except (BlockingIOError, SSLWantReadError):
            return True
        except OSError:
            return False
        return False

    def exchange(self, request: bytes, *, total_s: float, silence_s: float, on_reply: Callable[[Reply], None]) -> Reply:
        """Send a request and collect its response, to its end or to a deadline.

        `on_reply` gets the reply as soon as there is one to fill, so that a cancelled request keeps what had come.

        Raises:
            StreamError: connect_failed, or aborted where the request could not be sent.
        """
        connect_ns = self.open()
        reused = connect_ns is None
        reply = Reply(time.monotonic_ns(), connect_ns=connect_ns, raw=[] if self._keep_raw else None)
        on_reply(reply)
        try:
            self._send(request, total_s)
        except OSError as error:
            self.close()
            if reused and _just_sent(reply):
                # The server had closed it between our look and our send: it never saw the request.
                return self._again(request, total_s, silence_s, on_reply)
            raise StreamError(ErrorKind.ABORTED, f"while sending: {_words(error)}") from None
        except BaseException:
            self.close()
            raise
        try:
            _Reader(self._socket, reply, self._target.tls).run(total_s, silence_s)
        except BaseException:
            self.close()
            raise
        reply.end_ns = reply.end_ns or time.monotonic_ns()
        if reply.end is not End.COMPLETE or reply.head is None or not reply.head.keeps_alive:
            self.close()
        if reused and not (reply.reads or reply.pending) and reply.end in (End.CLOSED, End.RESET) and _just_sent(reply):
            return self._again(request, total_s, silence_s, on_reply)
        return reply

    def _again(self, request: bytes, total_s: float, silence_s: float, on_reply: Callable[[Reply], None]) -> Reply:
        try:
            return self.exchange(request, total_s=total_s, silence_s=silence_s, on_reply=on_reply)
        except StreamError as error:
            # It was no old connection that had run out: the engine went away.
            raise StreamError(ErrorKind.ABORTED, f"closed before the first byte of the response; {error}") from None

    def _send(self, request: bytes, total_s: float) -> None:
        if not self._target.tls:
            # Nearly always the kernel takes it all, and nothing has to be waited for.
            with contextlib.suppress(BlockingIOError):
                request = request[self._socket._sock.send(request) :]
            if not request:
                return
        with gevent.Timeout(total_s, StreamError(ErrorKind.TOTAL_TIMEOUT, f"not sent within {total_s:g} s")):
            self._socket.sendall(request)


def _just_sent(reply: Reply) -> bool:
    """Whether the connection broke so soon that the server must have closed it before; later is the engine's doing."""
    return time.monotonic_ns() - reply.sent_ns < STALE_NS


class _Reader:
    """Reads one response in the event loop and wakes the waiting greenlet once, when it is over."""

    def __init__(self, sock: Any, reply: Reply, tls: bool) -> None:
        self._sock, self._reply, self._tls = sock, reply, tls
        self._loop = get_hub().loop
        self._waiter: Waiter[End] = Waiter()

    def run(self, total_s: float, silence_s: float) -> None:
        """Wait for the end of the response, of the silence deadline or of the total one."""
        self._watcher = self._loop.io(self._sock.fileno(), 1)
        total = self._loop.timer(total_s)
        self._silence_ns = int(silence_s * 1e9)
        self._silence = self._loop.timer(silence_s)
        if self._tls:
            self._sock.setblocking(False)
        try:
            self._watcher.start(self._tls_callback() if self._tls else self._callback())
            total.start(self._waiter.switch, End.TOTAL)
            self._silence.start(self._on_silence)
            self._reply.end = self._waiter.get()
        finally:
            self._watcher.stop()
            self._watcher.close()
            total.stop()
            total.close()
            self._silence.stop()
            self._silence.close()
            if self._tls and self._sock.fileno() >= 0:
                self._sock.setblocking(True)

    def _callback(self) -> Callable[[], None]:
        """What runs for every read of every stream; a closure, since its names are looked up the fastest."""
        clock, receive, pending, look = time.monotonic_ns, self._sock._sock.recv, self._reply.pending, self._look
        append = pending.append
        look_always = True
        look_at = LOOK_EVERY

        def on_readable() -> None:
            nonlocal look_always, look_at
            now = clock()
            try:
                data = receive(RECV_BYTES)
            except BlockingIOError:
                return
            except OSError:
                self._look_again()
                self._finish(End.RESET, now)
                return
            if not data:
                self._look_again()
                self._finish(End.CLOSED, now)
                return
            append((now, data))
            if look_always:
                look_always = look(now)
            elif data[-4:] == b"\r\n\r\n" or len(data) < 4:
                # A chunked body ends in an empty line. Whether this is its end can be seen after others' reads.
                when_idle(look, now)
            elif (waiting := len(pending)) >= look_at:
                if waiting >= LOOK_AT_ONCE:
                    look(now)
                else:
                    when_idle(self._look_again)
                look_at = len(pending) + LOOK_EVERY
            elif waiting < LOOK_EVERY:
                look_at = LOOK_EVERY

        return on_readable

    def _tls_callback(self) -> Callable[[], None]:
        def on_readable() -> None:
            while not self._reply.end_ns:
                now = time.monotonic_ns()
                try:
                    data = self._sock.recv(RECV_BYTES)
                except (ssl.SSLWantReadError, BlockingIOError):
                    return
                except OSError:
                    self._finish(End.RESET, now)
                    return
                if not data:
                    self._finish(End.CLOSED, now)
                    return
                self._reply.pending.append((now, data))
                self._look(now)

        return on_readable

    def _look_again(self) -> None:
        """Take the framing off what is there, if anything."""
        if self._reply.pending:
            self._look(self._reply.pending[-1][0])

    def _look(self, now: int) -> bool:
        """See whether the response is over; returns whether the next read must be looked at too."""
        reply = self._reply
        reply.unframe()
        if reply.framing_error:
            self._finish(End.RESET, now)
        elif reply.framed:
            self._finish(End.COMPLETE, now)
        elif reply.size > MAX_BODY_BYTES:
            self._finish(End.TOO_LARGE, now)
        return reply.how in (None, "length")

    def _on_silence(self) -> None:
        reply, now = self._reply, time.monotonic_ns()
        last_ns = reply.pending[-1][0] if reply.pending else reply.last_ns or reply.sent_ns
        left = self._silence_ns - (now - last_ns)
        if left <= 0:
            self._finish(End.SILENCE, now)
        else:
            # One timer for the whole stream, moved on only when it fires: a timer a read would cost more than the read.
            self._silence.stop()
            self._silence.close()
            self._silence = self._loop.timer(left / 1e9)
            self._silence.start(self._on_silence)

    def _finish(self, end: End, now: int) -> None:
        if self._reply.end_ns:
            return
        self._reply.end_ns = now
        self._reply.end = end
        # A connection that was closed can be read for ever: the loop would never be idle.
        self._watcher.stop()
        # What a user does between two requests takes as long as a dozen reads.
        when_idle(self._waiter.switch, end)


_context: SSLContext | None = None


def _tls_context() -> SSLContext:
    global _context  # reading the certificate store takes 20 ms
    if _context is None:
        _context = create_default_context()
        _context.set_alpn_protocols(["http/1.1"])
    return _context


def _words(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
