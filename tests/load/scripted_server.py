"""A server that answers chat completions by script, over raw sockets: right, wrong, late, in pieces, or not at all.

    with ScriptedServer(lambda asked: [chat(["Hel", "lo"])]) as server: ...

A script gets what was asked and returns actions: bytes to send, seconds to wait, or one of RESET and CLOSE.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

RESET = "reset"
CLOSE = "close"
Action = bytes | float | str

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
UNFRAMED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
END = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: its number at this server, its number on its connection, its head and its JSON."""

    number: int
    on_connection: int
    head: str
    body: dict[str, Any]

    @property
    def content(self) -> str:
        return str(self.body["messages"][-1]["content"])


Script = Callable[[Asked], Iterable[Action]]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(value: Any) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"


def delta(content: str | None = None, *, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    said = {"content": content} if content is not None else {}
    return {"choices": [{"index": 0, "delta": {**said, **fields}, "finish_reason": finish}]}


def usage(completion: int, prompt: int = 7) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


def events(texts: Sequence[str], *, finish: str | None = "stop", tokens: int | None = None) -> list[bytes]:
    """The events of a good answer: a role chunk, the texts, the finish reason, usage, [DONE]."""
    told = len(texts) if tokens is None else tokens
    values: list[Any] = [delta(role="assistant", content=""), *(delta(text) for text in texts)]
    return [event(value) for value in [*values, delta(finish=finish), usage(told), b"[DONE]"]]


def chat(texts: Sequence[str], *, finish: str | None = "stop", tokens: int | None = None) -> bytes:
    """A whole good answer, all at once."""
    return HEAD + b"".join(chunk(one) for one in events(texts, finish=finish, tokens=tokens)) + END


def paced(texts: Sequence[str], *, first_s: float, gap_s: float) -> Iterator[Action]:
    """A good answer that takes its time."""
    role, *rest = events(texts)
    yield HEAD + chunk(role)
    yield first_s
    for number, one in enumerate(rest):
        if 0 < number < len(texts):
            yield gap_s
        yield chunk(one)
    yield END


class ScriptedServer:
    """A thread a connection; everything is gone when the block ends."""

    def __init__(self, script: Script, *, context: ssl.SSLContext | None = None) -> None:
        self._script, self._context = script, context
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        self.connections = 0
        self.asked: list[Asked] = []
        self.in_flight = self.most_in_flight = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context:
                connection = self._context.wrap_socket(connection, server_side=True)
            with self._lock:
                self._open.add(connection)
                self.connections += 1
            for on_connection in range(1_000_000):
                asked = self._read(connection, on_connection)
                if asked is None or not self._answer(connection, asked):
                    return
        except OSError:
            return
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _read(self, connection: socket.socket, on_connection: int) -> Asked | None:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return None
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            (int(h.split(b":")[1]) for h in head.split(b"\r\n") if h.lower().startswith(b"content-length")), 0
        )
        while len(body) < length:
            piece = connection.recv(65536)
            if not piece:
                return None
            body += piece
        with self._lock:
            asked = Asked(len(self.asked), on_connection, head.decode(), json.loads(body or b"{}"))
            self.asked.append(asked)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        return asked

    def _answer(self, connection: socket.socket, asked: Asked) -> bool:
        try:
            for action in self._script(asked):
                if isinstance(action, bytes):
                    connection.sendall(action)
                elif isinstance(action, float):
                    time.sleep(action)
                else:
                    if action == RESET:
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return False
            return True
        finally:
            with self._lock:
                self.in_flight -= 1
