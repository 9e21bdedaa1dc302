"""An OpenAI-compatible streaming server with a known schedule, to measure clients against.

    python -m engines._pacing_server --port 8090 --ttft-ms 50 --interval-ms 10 --tokens 100

One thread, one selector, one heap of due times; chunks are encoded beforehand. Every chunk carries its send stamp (see
`_pacing_script`), and `GET /requests` hands over what really happened to each request since the last time it was asked:
received, first and last send, how late the server itself was. A request may change the schedule with a `pacing` object,
and ask for a fault with that object or with the model name `pacing:<fault>`.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import heapq
import json
import resource
import select
import selectors
import signal
import socket
import struct
import sys
import time
from collections import deque
from typing import Any, NoReturn

from engines._pacing_script import MODEL, End, Schedule, Script, asked_schedule, json_answer, script

MAX_REQUEST_BYTES = 64 * 2**20
KEPT_REQUESTS = 500_000


class _Stream:
    """One answer on its way."""

    __slots__ = ("after", "before", "connection", "due", "end", "first", "interval", "last", "late", "left", "received",
                 "send", "sent", "tail", "tokens")  # fmt: skip

    def __init__(self, connection: _Connection, plan: Script, schedule: Schedule, received: int) -> None:
        self.connection: _Connection | None = connection
        self.send = connection.socket.send
        self.before, self.after, self.tail, self.end = plan.before, plan.after, plan.tail, plan.end
        self.interval = int(schedule.interval_ms * 1e6)
        self.due = received + int(schedule.ttft_ms * 1e6)
        if schedule.grid:
            self.due += -self.due % self.interval
        self.left, self.sent, self.tokens = plan.chunks, 0, schedule.tokens
        self.received, self.first, self.last, self.late = received, 0, 0, 0


class _Connection:
    """One client's connection: unread request bytes, unsent answer bytes, the stream that it carries."""

    __slots__ = ("closing", "data", "out", "socket", "stream", "want")

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.data = b""
        self.want = 0
        self.out = b""
        self.stream: _Stream | None = None
        self.closing = False


class PacingServer:
    """The server; `run()` serves until SIGTERM."""

    def __init__(self, host: str, port: int, schedule: Schedule) -> None:
        """Listen.

        Raises:
            OSError: the port is taken.
        """
        self._default = schedule
        self._listener = socket.create_server((host, port), backlog=65535)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._dues: list[int] = []
        self._buckets: dict[int, list[_Stream]] = {}
        self._log: deque[tuple[int, ...]] = deque(maxlen=KEPT_REQUESTS)
        self._open = self._most_open = self._stalled = self._unfinished = 0

    def run(self) -> NoReturn:
        """Serve for ever."""
        # A selector's own timeout is in whole milliseconds; select() on the selector's descriptor takes microseconds.
        waiting = [self._selector.fileno()]
        now_ns = time.monotonic_ns
        while True:
            left = (self._dues[0] - now_ns()) / 1e9 if self._dues else None
            if left is None or left > 0:
                select.select(waiting, [], [], left)
            for key, mask in self._selector.select(0):
                if key.data is None:
                    self._accept()
                    continue
                if mask & selectors.EVENT_WRITE:
                    self._flush(key.data)
                if mask & selectors.EVENT_READ and key.data.socket.fileno() >= 0:
                    self._read(key.data)
            now = now_ns()
            while self._dues and self._dues[0] <= now:
                for stream in self._buckets.pop(heapq.heappop(self._dues)):
                    if stream.connection is not None:
                        self._tick(stream)

    # -- the clock --------------------------------------------------------------------------------------------------

    def _schedule(self, stream: _Stream) -> None:
        bucket = self._buckets.get(stream.due)
        if bucket is None:
            self._buckets[stream.due] = [stream]
            heapq.heappush(self._dues, stream.due)
        else:
            bucket.append(stream)

    def _tick(self, stream: _Stream) -> None:
        """Send the next chunk, and after the last one the rest."""
        connection = stream.connection
        assert connection is not None
        now = time.monotonic_ns()
        if stream.left:
            data = b"%b%018d%b" % (stream.before, now, stream.after)
            try:
                if connection.out or stream.send(data) != len(data):
                    raise BlockingIOError
            except BlockingIOError:
                # The client reads too slowly, or (not worth telling apart) only part of these few bytes went out.
                self._stalled += 1
                self._drop(connection)
                return
            except OSError:
                self._drop(connection)
                return
            if not stream.sent:
                stream.first = now
            stream.sent += 1
            stream.left -= 1
            stream.last = now
            if now - stream.due > stream.late:
                stream.late = now - stream.due
        if stream.left:
            stream.due += stream.interval
            self._schedule(stream)
        else:
            self._finish(stream)

    def _finish(self, stream: _Stream) -> None:
        connection = stream.connection
        assert connection is not None
        if stream.end is End.SILENCE:
            return
        self._keep_log(stream, finished=1)
        stream.connection = connection.stream = None
        self._open -= 1
        if stream.end is End.RESET:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._drop(connection)
            return
        connection.closing = stream.end is End.CLOSE
        self._send(connection, stream.tail)
        if connection.data and not connection.closing:
            self._take(connection)

    def _keep_log(self, stream: _Stream, *, finished: int) -> None:
        row = (stream.received, stream.first, stream.last, stream.sent, stream.tokens, stream.late, finished)
        self._log.append(row)

    # -- connections ------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = self._listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._selector.register(sock, selectors.EVENT_READ, _Connection(sock))

    def _drop(self, connection: _Connection) -> None:
        stream, connection.stream = connection.stream, None
        if stream is not None:
            stream.connection = None
            self._open -= 1
            self._unfinished += 1
            self._keep_log(stream, finished=0)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        connection.socket.close()

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(connection)
            return
        connection.data += data
        if connection.stream is None:
            self._take(connection)

    def _take(self, connection: _Connection) -> None:
        """Answer the request at the front of what was read, once it is whole."""
        if not connection.want:
            end = connection.data.find(b"\r\n\r\n")
            if end < 0:
                if len(connection.data) > 65536:
                    self._drop(connection)
                return
            connection.want = end + 4 + _content_length(connection.data[:end])
        if len(connection.data) < connection.want:
            if connection.want > MAX_REQUEST_BYTES:
                connection.closing = True
                self._refuse(connection, "413 Content Too Large", "request over 64 MiB")
            return
        received = time.monotonic_ns()
        request, connection.data = connection.data[: connection.want], connection.data[connection.want :]
        connection.want = 0
        head, _, body = request.partition(b"\r\n\r\n")
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].decode("latin-1")
        if method == b"POST" and path.endswith("/chat/completions"):
            self._chat(connection, body, received)
        elif method == b"GET":
            self._get(connection, path)
        else:
            self._refuse(connection, "404 Not Found", f"no {path} here")

    def _chat(self, connection: _Connection, body: bytes, received: int) -> None:
        try:
            asked = json.loads(body)
            schedule = asked_schedule(asked, self._default)
            prompt_tokens = max(1, len(body) // 4)
        except (ValueError, TypeError, AttributeError) as error:
            self._refuse(connection, "400 Bad Request", str(error))
            return
        plan = script(schedule, prompt_tokens)
        if not asked.get("stream"):
            self._send(connection, _whole(schedule, prompt_tokens))
            return
        self._send(connection, plan.head)
        if not plan.before and plan.end is End.KEEP:
            return
        stream = _Stream(connection, plan, schedule, received)
        connection.stream = stream
        self._open += 1
        self._most_open = max(self._most_open, self._open)
        self._schedule(stream)

    def _get(self, connection: _Connection, path: str) -> None:
        if path == "/health":
            answer = json_answer("200 OK", {"status": "ok"})
        elif path.endswith("/models"):
            answer = json_answer("200 OK", {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        elif path == "/requests":
            answer = json_answer("200 OK", self._report())
        else:
            answer = json_answer("404 Not Found", {"error": {"message": f"no {path} here"}})
        self._send(connection, answer)

    def _report(self) -> dict[str, Any]:
        names = ("received_ns", "first_ns", "last_ns", "chunks", "tokens", "late_ns", "finished")
        report = {
            "requests": [dict(zip(names, row, strict=True)) for row in self._log],
            "open": self._open,
            "most_open": self._most_open,
            "stalled": self._stalled,
            "unfinished": self._unfinished,
            "cpu_s": time.process_time(),
        }
        self._log.clear()
        self._most_open, self._stalled, self._unfinished = self._open, 0, 0
        return report

    def _refuse(self, connection: _Connection, status: str, message: str) -> None:
        self._send(connection, json_answer(status, {"error": {"message": message, "type": "invalid_request_error"}}))

    def _send(self, connection: _Connection, data: bytes) -> None:
        connection.out += data
        self._flush(connection)

    def _flush(self, connection: _Connection) -> None:
        had_to_wait = False
        try:
            while connection.out:
                connection.out = connection.out[connection.socket.send(connection.out) :]
        except BlockingIOError:
            had_to_wait = True
        except OSError:
            self._drop(connection)
            return
        if connection.closing and not connection.out:
            self._drop(connection)
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if had_to_wait else 0)
        if self._selector.get_key(connection.socket).events != events:
            self._selector.modify(connection.socket, events, connection)


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    return 0


def _whole(schedule: Schedule, prompt_tokens: int) -> bytes:
    message = {"role": "assistant", "content": " on" * schedule.tokens}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": schedule.tokens}
    choice = {"index": 0, "message": message, "finish_reason": "length"}
    return json_answer("200 OK", {"object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage})


def _on_sigterm(*_: object) -> NoReturn:
    sys.exit(0)


def main() -> None:
    """Serve what the command line asks for; the first line on stdout tells the port."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--ttft-ms", type=float, default=50.0)
    parser.add_argument("--interval-ms", type=float, default=10.0)
    parser.add_argument("--tokens", type=int, default=100, help="of an answer whose request names no max_tokens")
    parser.add_argument("--tokens-per-chunk", type=int, default=1)
    parser.add_argument("--grid", action="store_true", help="all streams tick together")
    parser.add_argument("--fault", default="", help="of every answer whose request names none")
    asked = parser.parse_args()
    try:
        schedule = Schedule(
            asked.ttft_ms, asked.interval_ms, asked.tokens, asked.tokens_per_chunk, asked.grid, asked.fault
        )
        server = PacingServer(asked.host, asked.port, schedule)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    signal.signal(signal.SIGTERM, _on_sigterm)
    signal.signal(signal.SIGINT, _on_sigterm)
    # Thousands of streams are thousands of descriptors.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.freeze()
    gc.set_threshold(200_000)
    sys.stdout.write(f"listening on http://{asked.host}:{server.port}\n")
    sys.stdout.flush()
    server.run()


if __name__ == "__main__":
    main()
