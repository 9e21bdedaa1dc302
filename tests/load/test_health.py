"""The client's health: a loop that is blocked while requests are in flight, and one that is blocked before or after."""

from __future__ import annotations

import time
from typing import Any

import gevent

from load.health import LATE_MS, PROBE_S, Health


def blocked(seconds: float) -> None:
    """Keep the loop from running, as a long computation does."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


def watched(*, before: float = 0.0, during: float = 0.0, times: int = 1, after: float = 0.0) -> dict[str, Any]:
    """The summary of a client with a request in flight for at least half a second, blocked for so many seconds."""
    health = Health()
    health.start()
    gevent.sleep(PROBE_S / 2)
    blocked(before)
    health.began(time.monotonic_ns(), None)
    for _ in range(times):
        gevent.sleep(0.5 / times)
        blocked(during)
    gevent.sleep(2 * PROBE_S)
    health.ended(time.monotonic_ns())
    blocked(after)
    gevent.sleep(2 * PROBE_S)
    health.stop()
    return health.summary()


def test_a_loop_that_is_blocked_before_the_first_request_and_after_the_last_was_not_late() -> None:
    # Compared with itself: on a busy machine the loop is late on its own.
    quiet, blocked_outside = watched(), watched(before=0.5, after=0.5)
    assert blocked_outside["loop_lag_ms_max"] < quiet["loop_lag_ms_max"] + 300
    assert blocked_outside["loop_lag_samples"] <= quiet["loop_lag_samples"] * 1.5


def test_a_loop_that_is_blocked_most_of_the_time_is_late_for_most_of_the_time() -> None:
    busy = watched(during=0.2, times=5)
    assert busy["loop_late_share"] > 0.4
    assert busy["loop_lag_ms_max"] > 100 > LATE_MS


def test_one_hiccup_is_the_p99_of_a_short_window_and_a_small_share_of_it() -> None:
    hiccup = watched(during=0.04)
    assert hiccup["loop_lag_ms_p99"] > LATE_MS / 2
    assert hiccup["loop_late_share"] < watched(during=0.2, times=5)["loop_late_share"] / 2
    assert 0 < hiccup["loop_lag_samples"] < 60


def test_a_client_that_sent_nothing_has_no_lag() -> None:
    health = Health()
    health.start()
    gevent.sleep(3 * PROBE_S)
    health.stop()
    summary = health.summary()
    assert summary["loop_lag_samples"] == 0
    assert summary["loop_lag_ms_p99"] is None and summary["loop_late_share"] is None
