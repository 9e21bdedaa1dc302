"""The floor: a bare epoll loop that stamps and parses, and keeps nothing but what it must.

    python -m benchmarks._floor --port 8090 --streams 64 --requests 640 --tokens 100 --out seen.jsonl

It has no deadlines, no records, no faults and trusts the pacing server's framing; it parses each event as it arrives.
"""

from __future__ import annotations

import argparse
import gc
import select
import socket
import time
from pathlib import Path

import orjson

from benchmarks._seen import SeenFile, body

_DATA = b"data: "


class _Stream:
    __slots__ = ("arrivals", "rest", "sent", "socket", "stamps", "tokens")

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def ask(self, request: bytes) -> None:
        self.arrivals: list[int] = []
        self.stamps: list[int] = []
        self.tokens: int | None = None
        self.sent = time.monotonic_ns()
        self.socket.sendall(request)

    def take(self, data: bytes, now: int) -> bool:
        """Parse what one read brought; whether the answer is over."""
        data = self.rest + data
        end = data.rfind(b"\n") + 1
        self.rest = data[end:]
        for line in data[:end].split(b"\n"):
            if not line.startswith(_DATA) or line[6:7] != b"{":
                continue
            event = orjson.loads(line[6:])
            if event["choices"]:
                content = event["choices"][0]["delta"].get("content")
                if content:
                    self.arrivals.append(now)
                    self.stamps.append(int(content.split(None, 1)[0]))
            else:
                self.tokens = event["usage"]["completion_tokens"]
        return data.endswith(b"0\r\n\r\n")


def main() -> None:
    """Keep `--streams` requests in flight until `--requests` have been answered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--requests", type=int, default=640)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    content = body("pacing", asked.tokens)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(content)}\r\n\r\n"
    request = head.encode() + content
    streams = [_Stream(asked.port) for _ in range(min(asked.streams, asked.requests))]
    out, left, open_streams = SeenFile(asked.out), asked.requests, len(streams)
    gc.freeze()
    epoll = select.epoll()
    by_descriptor = {stream.socket.fileno(): stream for stream in streams}
    for descriptor, stream in by_descriptor.items():
        epoll.register(descriptor, select.EPOLLIN)
        stream.ask(request)
        left -= 1
    clock = time.monotonic_ns
    while open_streams:
        for descriptor, _ in epoll.poll():
            stream = by_descriptor[descriptor]
            now = clock()
            if not stream.take(stream.socket.recv(65536), now):
                continue
            out.add(stream.sent, stream.arrivals, stream.stamps, stream.tokens)
            if left:
                left -= 1
                stream.ask(request)
            else:
                epoll.unregister(descriptor)
                open_streams -= 1
    out.write()


if __name__ == "__main__":
    main()
