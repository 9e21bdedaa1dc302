"""A server that plays back what a real engine once answered, byte for byte."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]


@dataclass(slots=True)
class Replay:
    """Where it listens, and the chat requests that it got."""

    port: int
    asked: list[Body] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def replaying(pages: Mapping[str, bytes], answer: Callable[[Body], tuple[int, bytes]]) -> Iterator[Replay]:
    """Serve pages by path, and to each chat request the status and content that `answer` chooses for its body."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200 if self.path in pages else 404, "application/json", pages.get(self.path, b"{}"))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            replay.asked.append(body)
            status, content = answer(body)
            kind = "text/event-stream; charset=utf-8" if status == 200 else "application/json"
            self._send(status, kind, content)

        def _send(self, status: int, kind: str, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    replay = Replay(server.server_port)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield replay
    finally:
        server.shutdown()
        server.server_close()
