"""The pacing server's timetable: streams in buckets by their due time, and a heap of those times."""

from __future__ import annotations

import heapq
import time

from engines.pacing_server.schedule import Schedule
from engines.pacing_server.script import Script
from engines.pacing_server.wire import Connection


class Stream:
    """One answer in progress. Times are monotonic ns; `late` is the largest delay of a send after its due time."""

    __slots__ = ("after", "before", "connection", "due", "end", "first", "further", "grid", "interval", "last", "late",
                 "left", "received", "send", "sent", "stamps", "tail", "tokens", "ttft")  # fmt: skip

    def __init__(self, connection: Connection, plan: Script, schedule: Schedule, received: int) -> None:
        self.connection: Connection | None = connection
        self.send = connection.socket.send
        self.further = (plan.before, plan.after)
        self.before, self.after = plan.first or self.further
        self.tail, self.end = plan.tail, plan.end
        self.stamps = schedule.stamps
        self.interval = int(schedule.interval_ms * 1e6)
        self.ttft, self.grid = int(schedule.ttft_ms * 1e6), schedule.grid
        self.due = 0
        self.begin(received)
        self.left, self.sent, self.tokens = plan.chunks, 0, schedule.tokens
        self.received, self.first, self.last, self.late = received, 0, 0, 0

    def begin(self, now: int) -> None:
        """Start the clock of the answer, when the request was read or gets a slot."""
        self.due = now + self.ttft
        if self.grid:
            self.due += -self.due % self.interval

    def send_chunk(self) -> bool:
        """Send the next chunk, if any; False if the client does not accept it.

        Raises:
            OSError: the client is gone.
        """
        if not self.left:
            return True
        assert self.connection is not None
        now = time.monotonic_ns()
        data = b"%b%018d%b" % (self.before, now if self.stamps else 0, self.after)
        try:
            # The client reads too slowly, or only part of these few bytes was sent (not distinguished).
            if self.connection.out or self.send(data) != len(data):
                return False
        except BlockingIOError:
            return False
        if not self.sent:
            self.first = now
            self.before, self.after = self.further
        self.sent += 1
        self.left -= 1
        self.last = now
        if now - self.due > self.late:
            self.late = now - self.due
        return True


class Clock:
    """Streams by their due times."""

    def __init__(self) -> None:
        self._dues: list[int] = []
        self._buckets: dict[int, list[Stream]] = {}

    def add(self, stream: Stream) -> None:
        """Add a stream with its next due time."""
        bucket = self._buckets.get(stream.due)
        if bucket is None:
            self._buckets[stream.due] = [stream]
            heapq.heappush(self._dues, stream.due)
        else:
            bucket.append(stream)

    def wait_s(self) -> float | None:
        """Seconds until the next stream is due, negative if it is late; None without streams."""
        return (self._dues[0] - time.monotonic_ns()) / 1e9 if self._dues else None

    def take_due(self, now: int) -> list[Stream] | None:
        """All streams of the earliest due time, in their order; None if that time has not come."""
        if not self._dues or self._dues[0] > now:
            return None
        return self._buckets.pop(heapq.heappop(self._dues))
