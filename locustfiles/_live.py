"""Live figures of one test, from the records as they come, in bounded memory. Knows nothing of Locust.

Percentiles over the whole test rest on every single value, up to `EXACT` values a metric; beyond, on bins a thousandth
wide, off by 0.1% at most (`exact` says which). Those of the last seconds and of each second are always exact.
Definitions are those of docs/methodology.md: only measured requests without an error are in a latency.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from records import Record

EXACT = 50_000
WIDTH = math.log(1.002)
QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
METRICS = ("ttft_ms", "tpot_ms", "itl_ms", "icl_ms", "e2e_ms")
KEEP_S = 600
"""Seconds of history."""
RECENT_S = 10


def quantile(ordered: list[float], q: float) -> float | None:
    """Linear interpolation between the closest ranks of sorted values; None of nothing."""
    if not ordered:
        return None
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def figures(ordered: list[float]) -> dict[str, float | None]:
    """p50, p90 and p99 of sorted values."""
    return {name: quantile(ordered, q) for name, q in QUANTILES}


class Distribution:
    """Percentiles of a stream of values in bounded memory."""

    def __init__(self, exact: int = EXACT) -> None:
        """`exact`: how many values are kept as they are."""
        self._limit = exact
        self._values: list[float] | None = []
        self._bins: Counter[int] = Counter()
        self.count, self.total, self.largest = 0, 0.0, -math.inf

    def add(self, values: Iterable[float]) -> None:
        """Take values in; both ways of counting run from the start, so that no moment pays for a change-over."""
        new = list(values)
        if not new:
            return
        self.count += len(new)
        self.total += sum(new)
        self.largest = max(self.largest, *new)
        log = math.log
        self._bins.update(int(log(value) // WIDTH) if value > 1e-6 else -10_000 for value in new)
        if self._values is not None:
            if len(self._values) + len(new) > self._limit:
                self._values = None
            else:
                self._values += new

    def summary(self) -> dict[str, Any]:
        """n, p50, p90, p99, mean, max, and whether the percentiles are exact."""
        if self._values is not None:
            # Mostly sorted since the last time, which Python's sort merges in one pass.
            self._values.sort()
            found = figures(self._values)
        else:
            found = self._from_bins()
        known = bool(self.count)
        return {
            "n": self.count,
            **found,
            "mean": self.total / self.count if known else None,
            "max": self.largest if known else None,
            "exact": self._values is not None,
        }

    def _from_bins(self) -> dict[str, float | None]:
        wanted = [(name, q * (self.count - 1)) for name, q in QUANTILES]
        found: dict[str, float | None] = {}
        seen = 0
        for number, count in sorted(self._bins.items()):
            seen += count
            while wanted and seen > wanted[0][1]:
                found[wanted.pop(0)[0]] = 0.0 if number == -10_000 else math.exp((number + 0.5) * WIDTH)
        return found


def _empty() -> dict[str, list[float]] | None:
    return {name: [] for name in METRICS}


@dataclass(slots=True)
class Second:
    """One second of a test. `values` are the exact ones while it is recent; `frozen` their percentiles later."""

    tokens: float = 0.0
    ended: int = 0
    errors: int = 0
    in_flight: int | None = None
    lag_ms: float | None = None
    values: dict[str, list[float]] | None = field(default_factory=_empty)
    frozen: dict[str, dict[str, float | None]] = field(default_factory=dict)

    def percentiles(self, name: str) -> dict[str, float | None]:
        return figures(sorted(self.values[name])) if self.values is not None else self.frozen[name]

    def freeze(self) -> None:
        if self.values is not None:
            self.frozen = {name: self.percentiles(name) for name in METRICS}
            self.values = None


class Live:
    """The figures of one test. Times are seconds of this process's monotonic clock."""

    def __init__(self, now: float) -> None:
        """Begin a test at `now`."""
        self.begun = now
        self.counts = {"warmup": 0, "ok": 0, "error": 0, "tokens": 0, "tokens_unknown": 0}
        self.errors: Counter[str] = Counter()
        self.whole = {name: Distribution() for name in METRICS}
        self._seconds: deque[Second] = deque([Second()])
        self._dropped = 0
        self._offsets: dict[str, float] = {}
        self._first_sent: float | None = None
        self._last_end: float | None = None

    # -- from the hooks ------------------------------------------------------------------------------------------------

    def first_token(self, record: Record, now: float) -> None:
        if self._counts(record) and record.sent_ns is not None and record.first_token_ns is not None:
            self._latency("ttft_ms", [(record.first_token_ns - record.sent_ns) / 1e6], now)

    def inter_token(self, record: Record, gaps_ms: list[float], now: float) -> None:
        if not self._counts(record):
            return
        self._latency("icl_ms", gaps_ms, now)
        if record.chunk_tokens is not None:
            brought = [max(1, tokens) for tokens in record.chunk_tokens[1:]]
            each = (gap / n for gap, n in zip(gaps_ms, brought, strict=True) for _ in range(n))
            self._latency("itl_ms", list(each), now)
        elif record.completion_tokens is not None and len(record.chunk_ns) >= record.completion_tokens - 1:
            self._latency("itl_ms", gaps_ms, now)

    def stream_finished(self, record: Record, now: float) -> None:
        if not record.measured:
            self.counts["warmup"] += 1
            return
        second = self._second(now)
        second.ended += 1
        if not record.ok:
            self.counts["error"] += 1
            self.errors[str((record.error or {}).get("kind", "unknown"))] += 1
            second.errors += 1
            return
        self.counts["ok"] += 1
        sent, first, last, tokens = (
            record.sent_ns,
            record.first_token_ns,
            record.last_token_ns,
            record.completion_tokens,
        )
        if sent is not None and last is not None:
            self._latency("e2e_ms", [(last - sent) / 1e6], now)
        if tokens is not None and tokens >= 2 and first is not None and last is not None:
            self._latency("tpot_ms", [(last - first) / 1e6 / (tokens - 1)], now)
        self._place_tokens(record, now)

    def sample(self, now: float, in_flight: int | None, lag_ms: float | None) -> None:
        """Note how many requests are in flight, and how late the event loop is."""
        second = self._second(now)
        second.in_flight, second.lag_ms = in_flight, lag_ms

    # -- inside --------------------------------------------------------------------------------------------------------

    @staticmethod
    def _counts(record: Record) -> bool:
        return record.measured and record.ok

    def _latency(self, name: str, values: list[float], now: float) -> None:
        self.whole[name].add(values)
        recent = self._second(now).values
        if recent is not None:
            recent[name] += values

    def _place_tokens(self, record: Record, now: float) -> None:
        """Give each token to the second in which its chunk came.

        Another host's clock is laid on ours by the quickest record that has come from it; only the place in the chart
        and the length of the test rest on that.
        """
        offset = min(self._offsets.get(record.worker, math.inf), now - record.end_ns / 1e9)
        self._offsets[record.worker] = offset
        sent = (record.sent_ns or record.end_ns) / 1e9 + offset
        self._first_sent = sent if self._first_sent is None else min(self._first_sent, sent)
        end = record.end_ns / 1e9 + offset
        self._last_end = end if self._last_end is None else max(self._last_end, end)
        if record.completion_tokens is None:
            self.counts["tokens_unknown"] += 1
            return
        self.counts["tokens"] += record.completion_tokens
        chunks = record.chunk_ns
        weights = record.chunk_tokens or [1] * len(chunks)
        share = record.completion_tokens / (sum(weights) or 1)
        for stamp, weight in zip(chunks, weights, strict=True):
            at = int(stamp / 1e9 + offset - self.begun) - self._dropped
            if 0 <= at < len(self._seconds):
                self._seconds[at].tokens += weight * share

    def _second(self, now: float) -> Second:
        at = max(0, int(now - self.begun))
        # After a long silence (a laptop that slept) the gap need not be walked in full.
        if at - self._dropped - len(self._seconds) > KEEP_S:
            self._seconds.clear()
            self._dropped = at
        while self._dropped + len(self._seconds) <= at:
            self._seconds.append(Second())
            if len(self._seconds) > RECENT_S + 1:
                self._seconds[-RECENT_S - 2].freeze()
            if len(self._seconds) > KEEP_S:
                self._seconds.popleft()
                self._dropped += 1
        return self._seconds[at - self._dropped]

    # -- what is shown -------------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """The figures of the whole test."""
        first, last = self._first_sent, self._last_end
        span = last - first if first is not None and last is not None and last > first else None
        return {
            "counts": dict(self.counts),
            "errors_by_kind": dict(self.errors.most_common()),
            "latency": {name: found.summary() for name, found in self.whole.items()},
            "tokens_per_s": self.counts["tokens"] / span if span else None,
            "requests_per_s": self.counts["ok"] / span if span else None,
            "span_s": span,
        }

    def recent(self) -> dict[str, Any]:
        """The figures of the last whole seconds, all exact."""
        seconds = list(self._seconds)[-RECENT_S - 1 : -1]
        latency = {}
        for name in METRICS:
            values = sorted(v for second in seconds for v in (second.values or {}).get(name, ()))
            latency[name] = {"n": len(values), **figures(values)}
        n = len(seconds)
        tokens = sum(second.tokens for second in seconds) / n if n else None
        return {"seconds": n, "latency": latency, "tokens_per_s": tokens}

    def series(self) -> dict[str, list[Any]]:
        """Each second of the history as columns; `t` in seconds since the begin."""
        shown: dict[str, list[Any]] = {"t": [self._dropped + n for n in range(len(self._seconds))]}
        for name in ("tokens", "ended", "errors", "in_flight", "lag_ms"):
            shown[name] = [_short(getattr(second, name)) for second in self._seconds]
        for metric in ("ttft_ms", "tpot_ms", "itl_ms", "icl_ms"):
            found = [second.percentiles(metric) for second in self._seconds]
            for name, _ in QUANTILES:
                shown[f"{metric}_{name}"] = [_short(item[name]) for item in found]
        return shown


def _short(value: float | None) -> float | None:
    return value if value is None or isinstance(value, int) else round(value, 3)
