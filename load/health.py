"""Measures the health of the load client: whether the client was the bottleneck."""

from __future__ import annotations

import time
from typing import Any

import psutil
from gevent.hub import get_hub

from load.live_percentiles import quantile

PROBE_S = 0.02
LATE_SEND_MS = 20.0
LATE_MS = 20.0
"""Lag above which the loop counts as late, as in the audit's check of the client."""
LAG_LIMIT_MS = 250.0
"""Lag that spoils any measurement. The audit judges a smaller lag against the measured latencies."""
CPU_LIMIT = 0.9


class Health:
    """Loop lag, CPU share and memory of this process from `start()` to `summary()`.

    Lag counts only while requests are in flight: Locust's own start and end block the loop for a quarter of a second,
    which does no harm, but would be the p99 of every short cell.
    """

    def __init__(self) -> None:
        self._lags_ms: list[float] = []
        self._process = psutil.Process()
        self._timer: Any = None
        self._due = 0.0
        self._cpu = self._wall = 0.0
        self._in_flight = 0
        self._busy_or_idle_since = 0.0
        self._curve: list[tuple[int, int]] = []
        self._send_delays_ms: list[float] = []
        self._late = 0
        self._dated_by: set[str] = set()

    def start(self) -> None:
        """Begin a window of observation. An earlier window is dropped, but the curve of requests in flight is kept."""
        self._lags_ms.clear()
        self._dated_by.clear()
        self._cpu, self._wall = time.process_time(), time.monotonic()
        if self._timer is None:
            # A timer, because waking a greenlet fifty times a second costs as much CPU as reading a stream.
            self._timer = get_hub().loop.timer(PROBE_S, PROBE_S)
            self._due = time.monotonic() + PROBE_S
            self._timer.start(self._probe, update=True)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer.close()
            self._timer = None

    def _probe(self) -> None:
        now = time.monotonic()
        if self._in_flight:
            self._lags_ms.append(max(0.0, now - max(self._due, self._busy_or_idle_since)) * 1000)
        elif self._busy_or_idle_since > self._due:
            self._lags_ms.append((self._busy_or_idle_since - self._due) * 1000)
        self._due = now + PROBE_S
        self._timer.again(self._probe, update=True)
        if len(self._lags_ms) > 200_000:
            # Hours of samples: keep every second one.
            del self._lags_ms[::2]

    def began(self, sent_ns: int, due_ns: int | None) -> None:
        """Record that a request was sent, and when it was due."""
        if not self._in_flight:
            self._busy_or_idle_since = time.monotonic()
        self._in_flight += 1
        self._note(sent_ns)
        if due_ns is not None:
            delay = (sent_ns - due_ns) / 1e6
            self._send_delays_ms.append(delay)
            self._late += delay > LATE_SEND_MS

    def ended(self, end_ns: int) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._busy_or_idle_since = time.monotonic()
        self._note(end_ns)

    def dated(self, by_kernel: bool) -> None:
        """Record whether the kernel or the client's read stamped the bytes of a response."""
        self._dated_by.add("kernel" if by_kernel else "read")

    def _note(self, now_ns: int) -> None:
        self._curve.append((now_ns, self._in_flight))
        if len(self._curve) > 40_000:
            del self._curve[1:-1:2]

    def recent(self, seconds: float = 10.0) -> dict[str, Any]:
        """The health of the last seconds with requests in flight. Cheap enough for a call every second."""
        lags = sorted(self._lags_ms[-int(seconds / PROBE_S) :])
        return {
            "in_flight": self._in_flight,
            "loop_lag_ms_p50": quantile(lags, 0.5),
            "loop_lag_ms_p99": quantile(lags, 0.99),
            "loop_lag_ms_max": lags[-1] if lags else None,
            "late_sends": self._late,
            "rss_mib": self._process.memory_info().rss / 2**20,
        }

    def summary(self) -> dict[str, Any]:
        """The client's health for scenario.json. Times in milliseconds; unknown is None."""
        lags = sorted(self._lags_ms)
        wall = time.monotonic() - self._wall
        share = (time.process_time() - self._cpu) / wall if wall > 0.5 else None
        p99 = quantile(lags, 0.99)
        late = [lag for lag in lags if lag > LATE_MS]
        watched_s = sum(lags) / 1000 + PROBE_S * len(lags)
        reasons = []
        if p99 is not None and p99 > LAG_LIMIT_MS:
            reasons.append(f"its event loop was {p99:.0f} ms late at the 99th percentile")
        if share is not None and share > CPU_LIMIT:
            reasons.append(f"it used {share:.0%} of a core")
        step = max(1, len(self._curve) // 2000)
        return {
            "loop_lag_ms_p50": quantile(lags, 0.5),
            "loop_lag_ms_p99": p99,
            "loop_lag_ms_max": lags[-1] if lags else None,
            "loop_lag_samples": len(lags),
            "loop_late_samples": len(late),
            "loop_late_share": sum(late) / 1000 / watched_s if lags else None,
            "cpu_share": share,
            "late_sends": self._late,
            "send_delay_ms_p99": quantile(sorted(self._send_delays_ms), 0.99),
            "rss_mib": self._process.memory_info().rss / 2**20,
            "arrival_stamps": "mixed" if len(self._dated_by) > 1 else next(iter(self._dated_by), None),
            "in_flight": [list(point) for point in self._curve[::step]],
            "bottleneck": bool(reasons) if lags else None,
            "bottleneck_reason": "; ".join(reasons) or None,
        }
