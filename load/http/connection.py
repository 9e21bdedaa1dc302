"""The connection of one user: opened before timing starts, kept between requests, reopened if it was closed."""

from __future__ import annotations

import contextlib
import socket as socket_module
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import gevent
from gevent import socket
from gevent.ssl import SSLContext, SSLWantReadError, create_default_context

from load.http.reader import Reader
from load.http.response import End, Reply
from load.http.stamps import ask_for_stamps
from records import ErrorKind
from records.endpoint import Target

STALE_NS = 250_000_000
"""If a kept connection breaks sooner than this (ns) after a send, the server had closed it before the send."""


class StreamError(Exception):
    """A request that failed before a response could be read, with its error kind."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Connection:
    """A connection kept alive between the requests of one user."""

    def __init__(
        self, target: Target, *, connect_timeout_s: float = 10.0, keep_raw: bool = False, ca: str | None = None
    ) -> None:
        """`ca` is a file of certificates to trust instead of the system's (`SSL_CERT_FILE` does the same)."""
        self._target, self._keep_raw, self._ca = target, keep_raw, ca
        self._connect_timeout_s = connect_timeout_s
        self._socket: Any = None

    def open(self) -> int | None:
        """Open a connection unless the kept one is still usable; return the time for opening in ns, else None.

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
                ask_for_stamps(made)
                if self._target.tls:
                    made = _tls_context(self._ca).wrap_socket(made, server_hostname=self._target.host)
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

    def exchange(
        self,
        request: bytes,
        *,
        total_s: float,
        silence_s: float,
        on_reply: Callable[[Reply], None],
        until: Callable[[Reply], bool] | None = None,
    ) -> Reply:
        """Send a request and collect its response until its end or a deadline.

        Args:
            request: all its bytes.
            total_s: time limit in seconds.
            silence_s: seconds without a byte after which the request fails.
            on_reply: gets the reply object before it is filled, so that a stopped request keeps what has arrived.
            until: called after each read; true closes the connection (`End.CANCELLED`).

        Raises:
            StreamError: connect_failed, or aborted if the request could not be sent.
        """
        connect_ns = self.open()
        reused = connect_ns is None
        reply = Reply(time.monotonic_ns(), connect_ns=connect_ns, raw=[] if self._keep_raw else None)
        on_reply(reply)
        upload = Upload(self._socket, tls=self._target.tls)
        try:
            upload.start(request, total_s)
            # An answer can come while the request is still going out, such as 413 for a large prompt.
            Reader(self._socket, reply, self._target.tls, until).run(total_s, silence_s)
        except BaseException:
            self.close()
            raise
        finally:
            upload.stop()
        reply.end_ns = reply.end_ns or time.monotonic_ns()
        if not upload.complete or reply.end is not End.COMPLETE or reply.head is None or not reply.head.keeps_alive:
            self.close()
        if upload.error is not None and reply.head is None:
            if reused and _just_sent(reply):
                # The server closed the connection between the check and the send: it never saw the request.
                return self._again(request, total_s, silence_s, on_reply, until)
            raise StreamError(ErrorKind.ABORTED, f"while sending: {_words(upload.error)}")
        if reused and not (reply.reads or reply.pending) and reply.end in (End.CLOSED, End.RESET) and _just_sent(reply):
            return self._again(request, total_s, silence_s, on_reply, until)
        return reply

    def _again(
        self,
        request: bytes,
        total_s: float,
        silence_s: float,
        on_reply: Callable[[Reply], None],
        until: Callable[[Reply], bool] | None,
    ) -> Reply:
        try:
            return self.exchange(request, total_s=total_s, silence_s=silence_s, on_reply=on_reply, until=until)
        except StreamError as error:
            # The connection was not stale, so the engine has gone.
            raise StreamError(ErrorKind.ABORTED, f"closed before the first byte of the response; {error}") from None


class Upload:
    """The sending of a request. A large request is sent while the response is read."""

    def __init__(self, sock: Any, *, tls: bool) -> None:
        self._socket, self._tls = sock, tls
        self._greenlet: gevent.Greenlet[..., None] | None = None
        self.complete = False
        self.error: OSError | None = None
        """Why the request could not be sent; a server may answer early and close the connection."""

    def start(self, request: bytes, total_s: float) -> None:
        """Send the bytes that the kernel accepts at once, and the rest while the response is read.

        Raises:
            StreamError: total_timeout; only under TLS, where sending and reading cannot overlap.
        """
        if self._tls:
            with gevent.Timeout(total_s, StreamError(ErrorKind.TOTAL_TIMEOUT, f"not sent within {total_s:g} s")):
                self._send_rest(request)
            return
        try:
            # The kernel nearly always accepts all bytes at once.
            with contextlib.suppress(BlockingIOError):
                request = request[self._socket._sock.send(request) :]
        except OSError as error:
            self.error = error
            return
        if request:
            self._greenlet = gevent.spawn(self._send_rest, request)
        else:
            self.complete = True

    def _send_rest(self, request: bytes) -> None:
        try:
            self._socket.sendall(request)
            self.complete = True
        except OSError as error:
            self.error = error

    def stop(self) -> None:
        """Stop sending even if bytes remain: the response is over."""
        if self._greenlet is not None:
            self._greenlet.kill()


def _just_sent(reply: Reply) -> bool:
    """Whether the connection broke so soon that the server must have closed it before; later, the engine broke it."""
    return time.monotonic_ns() - reply.sent_ns < STALE_NS


@lru_cache(maxsize=4)
def _tls_context(ca: str | None) -> SSLContext:
    # Cached, because reading the certificate store takes 20 ms.
    try:
        context = create_default_context(cafile=ca)
    except OSError as error:
        raise OSError(f"certificates {ca}: {_words(error)}") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def _words(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
