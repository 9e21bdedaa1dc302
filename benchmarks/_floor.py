"""The floor: a bare epoll loop that only stamps and parses. No client in Python that decodes at once can cost less.

    python -m benchmarks._floor HOST PORT STREAMS REQUESTS TOKENS OUT.json [json|orjson]

A closed loop of STREAMS connections until REQUESTS are done. What it kept is written after its clock has stopped.
"""

from __future__ import annotations

import gc
import json
import select
import socket
import sys
import time
from pathlib import Path
from typing import Any


class _Stream:
    __slots__ = ("arrivals", "buffer", "contents", "send", "sent", "sock", "usage")

    def __init__(self, address: tuple[str, int]) -> None:
        self.sock = socket.create_connection(address)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.begin(b"")

    def begin(self, request: bytes) -> None:
        self.buffer = b""
        self.arrivals: list[int] = []
        self.contents: list[str] = []
        self.usage: dict[str, int] | None = None
        self.sent = time.monotonic_ns()
        if request:
            self.sock.sendall(request)


def main() -> None:
    """Run the loop."""
    host, port, streams, requests, tokens, out, *parser = sys.argv[1:]
    loads: Any = json.loads
    if parser == ["orjson"]:
        import orjson

        loads = orjson.loads
    content = "Tell me a short story about a lighthouse and the sea, please. " * 6
    body = json.dumps({
        "model": "pacing", "messages": [{"role": "user", "content": content}], "stream": True,
        "stream_options": {"include_usage": True}, "max_tokens": int(tokens),
    }).encode()  # fmt: skip
    request = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    epoll = select.epoll()
    by_fd = {}
    for _ in range(int(streams)):
        stream = _Stream((host, int(port)))
        by_fd[stream.sock.fileno()] = stream
        epoll.register(stream.sock.fileno(), select.EPOLLIN)
    gc.freeze()
    done: list[tuple[int, list[int], list[str], dict[str, int] | None]] = []
    left, total = int(requests), int(requests)
    began = time.process_time()
    for stream in by_fd.values():
        if left:
            left -= 1
            stream.begin(request)
    now_ns = time.monotonic_ns
    while len(done) < total:
        for fd, _ in epoll.poll():
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
                        if left:
                            left -= 1
                            stream.begin(request)
                        break
                    event = loads(line[6:])
                    if event["choices"]:
                        text = event["choices"][0]["delta"].get("content")
                        if text:
                            stream.arrivals.append(now)
                            stream.contents.append(text)
                    else:
                        stream.usage = event["usage"]
    cpu = time.process_time() - began
    rows = [
        {"sent_ns": sent, "arrivals": at, "stamps": [int(c.split()[0]) for c in texts],
         "tokens": (usage or {}).get("completion_tokens")}
        for sent, at, texts, usage in done
    ]  # fmt: skip
    Path(out).write_text(json.dumps({"cpu_s": cpu, "requests": rows}))


if __name__ == "__main__":
    main()
