"""Decodes ended requests one by one, in short slices, so that arriving bytes are stamped in between."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator

import gevent
from gevent.event import Event
from gevent.hub import get_hub

from load.record_builder import Exchange
from records import Phase, Record

SLICE_NS = 300_000
"""Longest time in ns for which decoding may block the event loop between two polls of the sockets."""
BACKLOG = 512
"""If more ended requests are in the queue, users wait until half of them are decoded."""
PATIENCE = 128
"""Up to this many ended requests wait until the event loop is idle. A longer queue alternates with arriving bytes."""


class Decoding:
    """A queue of exchanges and the greenlet that decodes them."""

    def __init__(
        self,
        build: Callable[[Exchange, Phase], Iterator[Record]],
        *,
        keep: Callable[[Record, Exchange], None],
        on_done: Callable[[], None],
        on_failure: Callable[[str], None],
    ) -> None:
        """`build` yields a growing record; `keep` gets the complete record; `on_done` is called after each."""
        self._build, self._keep, self._on_done = build, keep, on_done
        self._queue: deque[tuple[Exchange, Phase]] = deque()
        self._wake, self._room = Event(), Event()
        self._room.set()
        self._stopped = False
        self._slice_end = 0
        self._greenlet = gevent.spawn(self._run)
        self._greenlet.link_exception(lambda greenlet: on_failure(f"the decoder failed: {greenlet.exception!r}"))

    @property
    def is_idle(self) -> bool:
        """Whether all exchanges are decoded and kept."""
        return not self._queue

    def put(self, exchange: Exchange, phase: Phase) -> None:
        self._queue.append((exchange, phase))
        self._wake.set()
        if len(self._queue) > BACKLOG:
            self._room.clear()

    def wait_for_room(self) -> None:
        """Wait while too many ended requests are not decoded yet."""
        self._room.wait()

    def let_all_go(self) -> None:
        """Release all waiting users: nothing more will be sent."""
        self._room.set()

    def stop(self) -> None:
        """Drop the exchanges that are not decoded yet."""
        self._stopped = True

    def finish(self) -> None:
        """Wait until the queue is empty or stopped, then end the greenlet."""
        while self._queue and not self._stopped:
            gevent.sleep(0.001)
        self._greenlet.kill(block=False)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            self._let_io_pass()
            while self._queue and not self._stopped:
                self._decode(*self._queue[0])
                self._queue.popleft()
                if len(self._queue) < BACKLOG // 2:
                    self._room.set()
                self._on_done()

    def _decode(self, exchange: Exchange, phase: Phase) -> None:
        record: Record | None = None
        for record in self._build(exchange, phase):  # noqa: B007 - the last one is complete
            if time.monotonic_ns() > self._slice_end:
                self._let_io_pass()
        assert record is not None
        self._keep(record, exchange)

    def _let_io_pass(self) -> None:
        """Let the loop stamp everything that has arrived, then begin another slice of decoding.

        `gevent.sleep(0)` does not work: the loop runs dozens of such wake-ups before it polls its sockets again.
        """
        loop = get_hub().loop
        get_hub().wait(loop.idle() if len(self._queue) < PATIENCE else loop.timer(0.0))
        self._slice_end = time.monotonic_ns() + SLICE_NS
