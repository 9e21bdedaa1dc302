"""The floor: a bare epoll loop that only stamps and parses. No client in Python that decodes at once can cost less.

    python -m benchmarks._floor HOST PORT STREAMS REQUESTS TOKENS OUT.json [json|orjson|late]

A closed loop of STREAMS connections until REQUESTS are done. What it kept is written after its clock has stopped. With
`late` it parses only then too: what is left is a clock, a recv and an append, the least lag that Python can have.
"""

from __future__ import annotations

import gc
import json
import select
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Done = tuple[int, list[int], list[str], dict[str, int] | None]
"""Of one request: when it was sent, arrivals, texts, usage."""


class _Stream:
    __slots__ = ("arrivals", "buffer", "contents", "pieces", "sent", "sock", "usage")

    def __init__(self, address: tuple[str, int]) -> None:
        self.sock = socket.create_connection(address)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)

    def begin(self, request: bytes) -> None:
        self.buffer = b""
        self.pieces: list[tuple[int, bytes]] = []
        self.arrivals: list[int] = []
        self.contents: list[str] = []
        self.usage: dict[str, int] | None = None
        self.sent = time.monotonic_ns()
        self.sock.sendall(request)


class _Load:
    """Streams, and how many requests are still to be sent."""

    def __init__(self, address: tuple[str, int], streams: int, requests: int, request: bytes) -> None:
        self.request, self.total, self.left = request, requests, requests
        self.epoll = select.epoll()
        self.by_fd: dict[int, _Stream] = {}
        for _ in range(streams):
            stream = _Stream(address)
            self.by_fd[stream.sock.fileno()] = stream
            self.epoll.register(stream.sock.fileno(), select.EPOLLIN)

    def begin(self) -> None:
        for stream in self.by_fd.values():
            self.next(stream)

    def next(self, stream: _Stream) -> None:
        if self.left:
            self.left -= 1
            stream.begin(self.request)


def parse_at_once(load: _Load, loads: Callable[[bytes], Any]) -> list[Done]:
    """Stamp and parse every event as it comes."""
    done: list[Done] = []
    by_fd, poll, now_ns = load.by_fd, load.epoll.poll, time.monotonic_ns
    while len(done) < load.total:
        for fd, _ in poll():
            stream = by_fd[fd]
            now = now_ns()
            data = stream.sock.recv(65536)
            if not data:
                raise SystemExit("the server closed a connection")
            *lines, stream.buffer = (stream.buffer + data).split(b"\n")
            for line in lines:
                if line.startswith(b"data: "):
                    if line == b"data: [DONE]":
                        done.append((stream.sent, stream.arrivals, stream.contents, stream.usage))
                        load.next(stream)
                        break
                    event = loads(line[6:])
                    if event["choices"]:
                        text = event["choices"][0]["delta"].get("content")
                        if text:
                            stream.arrivals.append(now)
                            stream.contents.append(text)
                    else:
                        stream.usage = event["usage"]
    return done


def keep_for_later(load: _Load) -> list[tuple[int, list[tuple[int, bytes]]]]:
    """Stamp and keep; a stream is over when its bytes end as a chunked body does."""
    done: list[tuple[int, list[tuple[int, bytes]]]] = []
    by_fd, poll, now_ns = load.by_fd, load.epoll.poll, time.monotonic_ns
    while len(done) < load.total:
        for fd, _ in poll():
            stream = by_fd[fd]
            now = now_ns()
            data = stream.sock.recv(65536)
            if not data:
                raise SystemExit("the server closed a connection")
            stream.pieces.append((now, data))
            if data.endswith(b"0\r\n\r\n"):
                done.append((stream.sent, stream.pieces))
                load.next(stream)
    return done


def parse_pieces(sent: int, pieces: list[tuple[int, bytes]]) -> Done:
    """What `parse_at_once` would have made of the pieces of one request."""
    arrivals: list[int] = []
    contents: list[str] = []
    usage = None
    rest = b""
    for now, data in pieces:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                if not event["choices"]:
                    usage = event["usage"]
                elif text := event["choices"][0]["delta"].get("content"):
                    arrivals.append(now)
                    contents.append(text)
    return sent, arrivals, contents, usage


def request_of(host: str, tokens: int) -> bytes:
    """The bytes of the one request that is sent again and again."""
    content = "Tell me a short story about a lighthouse and the sea, please. " * 6
    body = json.dumps({
        "model": "pacing", "messages": [{"role": "user", "content": content}], "stream": True,
        "stream_options": {"include_usage": True}, "max_tokens": tokens,
    }).encode()  # fmt: skip
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def main() -> None:
    """Run the loop."""
    host, port, streams, requests, tokens, out, *parser = sys.argv[1:]
    loads: Callable[[bytes], Any] = json.loads
    if parser == ["orjson"]:
        import orjson

        loads = orjson.loads
    load = _Load((host, int(port)), int(streams), int(requests), request_of(host, int(tokens)))
    gc.freeze()
    began = time.process_time()
    load.begin()
    if parser == ["late"]:
        kept = keep_for_later(load)
        cpu = time.process_time() - began
        done = [parse_pieces(*one) for one in kept]
    else:
        done = parse_at_once(load, loads)
        cpu = time.process_time() - began
    rows = [
        {"sent_ns": sent, "arrivals": at, "stamps": [int(c.split()[0]) for c in texts],
         "tokens": (usage or {}).get("completion_tokens")}
        for sent, at, texts, usage in done
    ]  # fmt: skip
    Path(out).write_text(json.dumps({"cpu_s": cpu, "requests": rows}))


if __name__ == "__main__":
    main()
