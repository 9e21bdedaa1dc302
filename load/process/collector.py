"""Python's garbage collector, kept from stopping the event loop in the middle of a measurement.

A full collection walks all that Locust has imported, some 50 ms in which no arrival is stamped. What is there when a
test starts stays until its end, so it is frozen; what streams leave behind is freed by reference counting.
"""

from __future__ import annotations

import gc

YOUNG = 50_000
"""Container objects more than at the last collection before the youngest are looked at: a few ms, every few seconds."""


def calm() -> None:
    """Collect once now, and let later collections pass over everything that is there."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, 50, 1000)
