"""The pacing server's loop: reads requests between ticks, and sends chunks at their due times."""

from __future__ import annotations

import contextlib
import json
import select
import selectors
import socket
import struct
import time
from collections import deque
from typing import NoReturn

from engines.pacing_server.clock import Clock, Stream
from engines.pacing_server.log import Log
from engines.pacing_server.schedule import Schedule, asked_schedule
from engines.pacing_server.script import MODEL, End, json_answer, script, whole_answer
from engines.pacing_server.wire import Connection, Request, TooLargeError
from records.endpoint import CHAT, COMPLETIONS


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
        self._clock, self._log = Clock(), Log()
        self._running = 0
        """Answers that hold a slot."""
        self._waiting: deque[Stream] = deque()

    def run(self) -> NoReturn:
        """Serve for ever."""
        # A selector's own timeout is in whole milliseconds; select() on the selector's descriptor takes microseconds.
        waiting = [self._selector.fileno()]
        clock = self._clock
        while True:
            left = clock.wait_s()
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
            now = time.monotonic_ns()
            while bucket := clock.take_due(now):
                for stream in bucket:
                    if stream.connection is not None:
                        self._tick(stream)

    def _tick(self, stream: Stream) -> None:
        """Send the next chunk; after the last chunk, send the tail."""
        connection = stream.connection
        assert connection is not None
        try:
            taken = stream.send_chunk()
        except OSError:
            self._drop(connection)
            return
        if not taken:
            self._log.stalled()
            self._drop(connection)
        elif stream.left:
            stream.due += stream.interval
            self._clock.add(stream)
        else:
            self._finish(stream, connection)

    def _finish(self, stream: Stream, connection: Connection) -> None:
        if stream.end is End.SILENCE:
            return
        self._log.ended(stream, finished=True)
        stream.connection = connection.stream = None
        self._free_slot()
        if stream.end is End.RESET:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._drop(connection)
            return
        connection.closing = stream.end is End.CLOSE
        self._send(connection, stream.tail)
        if not connection.closing and connection.socket.fileno() >= 0:
            self._answer(connection)

    # -- connections ------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = self._listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._selector.register(sock, selectors.EVENT_READ, Connection(sock))

    def _drop(self, connection: Connection) -> None:
        stream, connection.stream = connection.stream, None
        if stream is not None:
            stream.connection = None
            self._log.ended(stream, finished=False)
            if stream in self._waiting:
                self._waiting.remove(stream)
            else:
                self._free_slot()
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        connection.socket.close()

    def _read(self, connection: Connection) -> None:
        try:
            data = connection.socket.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(connection)
            return
        connection.feed(data)
        if connection.stream is None:
            self._answer(connection)

    def _answer(self, connection: Connection) -> None:
        """Answer the first request in the buffer, once it is complete."""
        try:
            request = connection.next_request()
        except TooLargeError as error:
            connection.closing = True
            self._refuse(connection, "413 Content Too Large", str(error))
            return
        if request is None:
            return
        if request.method == b"POST" and request.path.endswith("/chat/completions"):
            self._generate(connection, request, CHAT)
        elif request.method == b"POST" and request.path.endswith("/completions"):
            self._generate(connection, request, COMPLETIONS)
        elif request.method == b"GET":
            self._get(connection, request.path)
        else:
            self._refuse(connection, "404 Not Found", f"no {request.path} here")

    def _generate(self, connection: Connection, request: Request, endpoint: str) -> None:
        try:
            asked = json.loads(request.body)
            schedule = asked_schedule(asked, self._default)
            prompt_tokens = max(1, len(request.body) // 4)
        except (ValueError, TypeError, AttributeError) as error:
            self._refuse(connection, "400 Bad Request", str(error))
            return
        plan = script(schedule, prompt_tokens, endpoint)
        if not asked.get("stream"):
            self._send(connection, whole_answer(schedule, prompt_tokens))
            return
        self._send(connection, plan.head)
        if not plan.before and plan.end is End.KEEP:
            return
        connection.stream = Stream(connection, plan, schedule, request.received_ns)
        self._log.began()
        if self._default.slots and self._running >= self._default.slots:
            self._waiting.append(connection.stream)
            return
        self._running += 1
        self._clock.add(connection.stream)

    def _free_slot(self) -> None:
        """Give the slot of an ended answer to the one that has waited longest."""
        self._running -= 1
        if self._waiting:
            stream = self._waiting.popleft()
            stream.begin(time.monotonic_ns())
            self._running += 1
            self._clock.add(stream)

    def _get(self, connection: Connection, path: str) -> None:
        if path == "/health":
            answer = json_answer("200 OK", {"status": "ok"})
        elif path.endswith("/models"):
            answer = json_answer("200 OK", {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        elif path == "/requests":
            answer = json_answer("200 OK", self._log.hand_over())
        else:
            answer = json_answer("404 Not Found", {"error": {"message": f"no {path} here"}})
        self._send(connection, answer)

    def _refuse(self, connection: Connection, status: str, message: str) -> None:
        self._send(connection, json_answer(status, {"error": {"message": message, "type": "invalid_request_error"}}))

    def _send(self, connection: Connection, data: bytes) -> None:
        connection.out += data
        self._flush(connection)

    def _flush(self, connection: Connection) -> None:
        try:
            is_out = connection.flush()
        except OSError:
            self._drop(connection)
            return
        if connection.closing and is_out:
            self._drop(connection)
            return
        events = selectors.EVENT_READ | (0 if is_out else selectors.EVENT_WRITE)
        if self._selector.get_key(connection.socket).events != events:
            self._selector.modify(connection.socket, events, connection)
