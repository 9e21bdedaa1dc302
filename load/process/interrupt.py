"""Ctrl-C between two callbacks of the event loop, never inside one, and once.

Python raises KeyboardInterrupt wherever it happens to be: between a read and the keeping of its bytes, and that stream
would wait for them until its silence timeout. The loop's own signal watcher runs when nothing else does. A second one
would break off the end of what is in flight, which has its own deadline (--drain-timeout).
"""

from __future__ import annotations

import signal
from typing import Any

import gevent
from gevent.hub import get_hub


def deliver_between_callbacks(environment: Any) -> None:
    """Let the loop take SIGINT; where somebody else handles or ignores it, that stays."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        gevent.signal_handler(signal.SIGINT, _interrupt, environment)


def _interrupt(environment: Any) -> None:
    if not getattr(environment, "enginebench_interrupted", False):
        environment.enginebench_interrupted = True
        # As gevent does with one that is raised in a greenlet: hand it to the main one, but without a traceback.
        get_hub().handle_system_error(KeyboardInterrupt, KeyboardInterrupt())
