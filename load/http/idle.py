"""Work that can wait until the event loop has nothing to read, so that no stamp waits for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from gevent.hub import get_hub

PATIENCE_S = 0.005


class WhenIdle:
    """Runs callbacks in the hub in their order: when nothing has arrived, and else at least one every PATIENCE_S.

    A loop that always has something to read would otherwise never come to them.
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._watchers: tuple[Any, Any] | None = None

    def __call__(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Have `callback(*arguments)` run soon, but not now."""
        if not self._queue:
            # Made here and not before: the loop of a forked worker is another one.
            loop = get_hub().loop
            self._watchers = loop.idle(), loop.timer(PATIENCE_S, PATIENCE_S)
            for watcher in self._watchers:
                watcher.start(self._next)
        self._queue.append((callback, arguments))

    def _next(self) -> None:
        if not self._queue:
            return
        callback, arguments = self._queue.popleft()
        if not self._queue and self._watchers is not None:
            for watcher in self._watchers:
                watcher.stop()
                watcher.close()
            self._watchers = None
        callback(*arguments)


when_idle = WhenIdle()
