"""Reads responses in the event loop itself; each read of a stream costs two clocks, a recvmsg and an append.

JSON is decoded elsewhere, after the stream has ended, so that decoding delays no stamps of other streams.
"""

from __future__ import annotations

import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from gevent.hub import Waiter, get_hub

from load.http.response import End, Reply
from load.http.stamps import CONTROL_BYTES, arrival_ns

RECV_BYTES = 16 * 1024
"""Small enough that the allocator reuses memory instead of asking the kernel."""
LOOK_EVERY = 128
"""Number of reads whose framing is removed at once; more would block the event loop for too long."""
LOOK_AT_ONCE = 1024
"""Number of reads that may wait for an idle event loop. With more, the loop is never idle and memory would grow."""
MAX_BODY_BYTES = 512 * 2**20
DONE_GRACE_S = 0.01
"""Seconds to wait for the end of the framing after `[DONE]`, so that the connection can be kept."""
SMALL_READ = 24
"""Shorter reads have no event with text, but may have the end of `[DONE]` or of the body."""
EVENT_ENDS = (b"}\n\n\r\n", b"}\n\n")
"""Endings of a read with complete JSON events (chunked or not): neither the body's end nor `[DONE]`."""


PATIENCE_S = 0.005


class WhenIdle:
    """Runs callbacks in the hub, in order, while nothing arrives, but at least one every PATIENCE_S.

    Without the second rule, a loop that always has something to read would never run them.
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._watchers: tuple[Any, Any] | None = None

    def __call__(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Run `callback(*arguments)` soon, but not now."""
        if not self._queue:
            # Created late, because a forked worker has its own loop.
            loop = get_hub().loop
            self._watchers = loop.idle(), loop.timer(PATIENCE_S, PATIENCE_S)
            for watcher in self._watchers:
                watcher.start(self._next)
        self._queue.append((callback, arguments))

    def _next(self) -> None:
        if not self._queue:
            return
        callback, arguments = self._queue.popleft()
        if not self._queue and self._watchers is not None:
            for watcher in self._watchers:
                watcher.stop()
                watcher.close()
            self._watchers = None
        callback(*arguments)


when_idle = WhenIdle()


class Reader:
    """Reads one response in the event loop and wakes the waiting greenlet once, when it is over."""

    def __init__(self, sock: Any, reply: Reply, tls: bool, until: Callable[[Reply], bool] | None = None) -> None:
        """`until` is called after each read; if it returns true, the client cancels the request."""
        self._sock, self._reply, self._tls, self._until = sock, reply, tls, until
        self._loop = get_hub().loop
        self._waiter: Waiter[End] = Waiter()
        self._done_ns: int | None = None

    def run(self, total_s: float, silence_s: float) -> None:
        """Wait for the end of the response, of the silence deadline or of the total one."""
        self._watcher = self._loop.io(self._sock.fileno(), 1)
        total = self._loop.timer(total_s)
        self._silence_ns = int(silence_s * 1e9)
        self._silence = self._loop.timer(silence_s)
        self._grace = self._loop.timer(DONE_GRACE_S)
        if self._tls:
            self._sock.setblocking(False)
        try:
            on_readable = self._tls_callback() if self._tls else self._callback()
            self._watcher.start(on_readable if self._until is None else self._watched(on_readable, self._until))
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
            self._grace.stop()
            self._grace.close()
            if self._tls and self._sock.fileno() >= 0:
                self._sock.setblocking(True)

    def _callback(self) -> Callable[[], None]:
        """The callback for every read of a stream. It is a closure, because local names are fastest."""
        clock, wall, receive, arrived = time.monotonic_ns, time.time_ns, self._sock._sock.recvmsg, arrival_ns
        pending, look = self._reply.pending, self._look
        append = pending.append
        look_always = True
        look_at = LOOK_EVERY
        stamp = self._reply.sent_ns

        def on_readable() -> None:
            nonlocal look_always, look_at, stamp
            try:
                data, control, _, _ = receive(RECV_BYTES, CONTROL_BYTES)
            except BlockingIOError:
                return
            except OSError:
                self._look_again()
                self._finish(End.RESET, clock())
                return
            # Read the clock after the read: bytes that arrived during it must not get an earlier stamp.
            wall_ns, now = wall(), clock()
            if not data:
                self._look_again()
                self._finish(End.CLOSED, now)
                return
            stamp = arrived(control, wall_ns, now, stamp)
            append((stamp, data))
            if look_always:
                self._reply.kernel_stamps = stamp != now
                look_always = look(now)
            elif not data.endswith(EVENT_ENDS) and (
                data.endswith(b"\r\n\r\n") or b"[DONE]" in data[-20:] or len(data) < SMALL_READ
            ):
                # A chunked body ends with an empty line. Whether it does is checked after the reads of other streams.
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

    def _watched(self, on_readable: Callable[[], None], until: Callable[[Reply], bool]) -> Callable[[], None]:
        """The callback of a stream that may be cancelled; only such a stream is unframed at every read."""

        def read_and_ask() -> None:
            on_readable()
            self._look_again()
            if not self._reply.end_ns and until(self._reply):
                self._finish(End.CANCELLED, time.monotonic_ns())

        return read_and_ask

    def _look_again(self) -> None:
        """Remove the framing of the bytes that have arrived, if any."""
        if self._reply.pending:
            self._look(self._reply.pending[-1][0])

    def _look(self, now: int) -> bool:
        """Check whether the response is over; return whether the next read must be checked too."""
        reply = self._reply
        reply.unframe()
        if reply.framing_error:
            self._finish(End.RESET, now)
        elif reply.framed:
            self._finish(End.COMPLETE, now)
        elif self._done_ns is None and reply.says_done:
            self._done_ns = now
            self._grace.start(self._finish, End.DONE, now)
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
            # One timer per stream, moved only when it fires: a timer per read would cost more than the read.
            self._silence.stop()
            self._silence.close()
            self._silence = self._loop.timer(left / 1e9)
            self._silence.start(self._on_silence)

    def _finish(self, end: End, now: int) -> None:
        if self._reply.end_ns:
            return
        self._reply.end_ns = now if self._done_ns is None else self._done_ns
        self._reply.end = end
        # A closed connection is always readable, so the loop would never be idle.
        self._watcher.stop()
        # A user's work between two requests takes as long as a dozen reads.
        when_idle(self._waiter.switch, end)
