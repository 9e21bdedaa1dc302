"""Computes live figures of one test from the records as they arrive, in bounded memory. Independent of Locust.

Medians of the last seconds and of each second are exact, percentiles of the whole test follow `load.live_percentiles`.
Definitions are those of `records.latency_definitions`: only measured requests without an error count for latencies. A
tail percentile with fewer than ten requests beyond it is withheld.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from load.live_percentiles import Distribution
from load.web.parts import Part, PartOf, turn_of
from load.web.timeline import METRICS, Second, Seconds
from records import Record
from records.latency_definitions import icl_ms, itl_ms, timing
from records.percentiles import enough


@dataclass(slots=True)
class _Clock:
    """A worker's clock in seconds, aligned with this process's clock by the worker's fastest record.

    Only positions in the charts and the length of the test depend on it. The ends stay on the worker's own clock,
    because `offset` improves as records arrive.
    """

    offset: float = math.inf
    first_sent: float = math.inf
    last_end: float = -math.inf

    def see(self, record: Record, now: float) -> float:
        """Add a record that arrived at `now`; returns the offset from its clock to this process's clock."""
        end = record.end_ns / 1e9
        self.offset = min(self.offset, now - end)
        self.first_sent = min(self.first_sent, end if record.sent_ns is None else record.sent_ns / 1e9)
        self.last_end = max(self.last_end, end)
        return self.offset


class Live:
    """The figures of one test. Times are seconds of this process's monotonic clock."""

    def __init__(self, now: float, part_of: PartOf = turn_of) -> None:
        """Begin a test at `now`. `part_of` returns the step, phase or turn of a record."""
        self._part_of, self._parts = part_of, dict[str, Part]()
        self._requests: Counter[str] = Counter()
        self.begun = now
        self.counts = {"warmup": 0, "ok": 0, "error": 0, "cancelled": 0, "tokens": 0, "tokens_unknown": 0}
        self.errors: Counter[str] = Counter()
        self.whole = {name: Distribution() for name in METRICS}
        self.seconds = Seconds()
        self._clocks: dict[str, _Clock] = {}

    # -- from the hooks ------------------------------------------------------------------------------------------------

    def first_token(self, record: Record, now: float) -> None:
        if record.measured and not record.failed:
            self._latency("ttft_ms", [timing(record).ttft_ms], now)

    def inter_token(self, record: Record, now: float) -> None:
        if self._counts(record):
            self._latency("icl_ms", icl_ms(record), now)
            self._latency("itl_ms", itl_ms(record) or [], now)

    def stream_finished(self, record: Record, now: float) -> None:
        if not record.measured:
            self.counts["warmup"] += 1
            return
        if name := self._part_of(record):
            self._parts.setdefault(name, Part(has_rate=name != turn_of(record))).add(record)
        second = self._second(now)
        second.ended += 1
        if record.status == "cancelled":
            self.counts["cancelled"] += 1
            return
        if not record.ok:
            self.counts["error"] += 1
            self.errors[str((record.error or {}).get("kind", "unknown"))] += 1
            second.errors += 1
            return
        self.counts["ok"] += 1
        latencies = timing(record)
        self._latency("e2e_ms", [latencies.e2e_ms], now)
        self._latency("tpot_ms", [latencies.tpot_ms], now)
        self._place_tokens(record, now)

    def sample(self, now: float, in_flight: int | None, lag_ms: float | None) -> None:
        """Record the number of requests in flight and the lag of the event loop."""
        second = self._second(now)
        second.in_flight, second.lag_ms = in_flight, lag_ms

    # -- inside --------------------------------------------------------------------------------------------------------

    @staticmethod
    def _counts(record: Record) -> bool:
        return record.measured and record.ok

    def _latency(self, name: str, values: Sequence[float | None], now: float) -> None:
        known = [value for value in values if value is not None]
        self._requests[name] += bool(known)
        self.whole[name].add(known)
        recent = self._second(now).values
        if recent is not None:
            recent[name] += known

    def _place_tokens(self, record: Record, now: float) -> None:
        """Count each token in the second in which its chunk arrived."""
        offset = self._clocks.setdefault(record.worker, _Clock()).see(record, now)
        if record.completion_tokens is None:
            self.counts["tokens_unknown"] += 1
            return
        self.counts["tokens"] += record.completion_tokens
        chunks = record.chunk_ns
        weights = record.chunk_tokens or [1] * len(chunks)
        share = record.completion_tokens / (sum(weights) or 1)
        for stamp, weight in zip(chunks, weights, strict=True):
            if (second := self.seconds.known(stamp / 1e9 + offset - self.begun)) is not None:
                second.tokens += weight * share

    def _second(self, now: float) -> Second:
        return self.seconds.at(now - self.begun)

    def _latency_summary(self, name: str) -> dict[str, Any]:
        summary, requests = self.whole[name].summary(), self._requests[name]
        tails = {f"p{percent}": None for percent in (90, 99) if not enough(percent, requests)}
        return {**summary, **tails, "requests": requests}

    def _same_gaps(self) -> bool:
        """Whether ITL equals ICL: every event had one token, except for at most 1% that shared an arrival."""
        itl, icl = self.whole["itl_ms"], self.whole["icl_ms"]
        return abs(itl.count - icl.count) <= 0.01 * icl.count

    # -- what is shown -------------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """The figures of the whole test."""
        firsts = [clock.first_sent + clock.offset for clock in self._clocks.values()]
        lasts = [clock.last_end + clock.offset for clock in self._clocks.values()]
        span = (max(lasts) - min(firsts) or None) if lasts else None
        return {
            "counts": dict(self.counts),
            "errors_by_kind": dict(self.errors.most_common()),
            "latency": {name: self._latency_summary(name) for name in METRICS},
            "same_gaps": self._same_gaps(),
            "parts": [part.summary(name) for name, part in self._parts.items()],
            "tokens_per_s": self.counts["tokens"] / span if span else None,
            "requests_per_s": self.counts["ok"] / span if span else None,
            "span_s": span,
        }
