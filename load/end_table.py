"""Prints the table at the end of a headless `locust`: latencies, tokens/s and errors by kind.

The definitions are those of `records.latency_definitions`.
"""

from __future__ import annotations

import itertools
import os
import sys
from array import array
from collections import Counter
from typing import Any

from locust.runners import WorkerRunner

from load.live_percentiles import quantile
from load.process_setup import DRIVER_PID
from records import Record
from records.latency_definitions import icl_ms, itl_ms, timing
from records.percentiles import enough

METRICS = (
    ("ttft_ms", "TTFT", "ms to the first token"),
    ("tpot_ms", "TPOT", "ms per token after the first, mean of each request"),
    ("itl_ms", "ITL", "ms between tokens"),
    ("icl_ms", "ICL", "ms between arrivals (chunks)"),
    ("e2e_ms", "E2E", "ms to the last token"),
)
"""Name, label and meaning, in the order in which all tables and pages show them."""
PERCENTS = (50, 90, 95, 99)
MOST_GAPS = 10_000
"""Up to this many gaps, ITL and ICL use all streams; beyond, only every second stream, every fourth ..."""


def install(environment: Any) -> None:
    """Print the table at the end of a headless test, unless the driver started it."""
    if environment.web_ui is not None or isinstance(environment.runner, WorkerRunner) or DRIVER_PID in os.environ:
        return
    table = EndTable()
    environment.events.stream_finished.add_listener(table.add)
    environment.events.quit.add_listener(lambda exit_code, **_: table.print())


class EndTable:
    """Collects the measured requests of a test, in bounded memory apart from three numbers per request."""

    def __init__(self) -> None:
        self._latencies: dict[str, list[float]] = {"ttft_ms": [], "tpot_ms": [], "e2e_ms": []}
        self._gaps: list[tuple[array[float], array[float]]] = []
        """Gaps per token and per arrival of each kept stream, in ms."""
        self._every = 1
        """Which streams are kept for ITL and ICL: every n-th."""
        self._ok = self._cancelled = 0
        self._errors: Counter[str] = Counter()
        self._spans: dict[str, tuple[int, int, int]] = {}

    def add(self, record: Record, **_: Any) -> None:
        """Add the record of an ended request."""
        if not record.measured:
            return
        if record.error is not None:
            self._errors[str(record.error["kind"])] += 1
            return
        latency = timing(record)
        if record.status == "cancelled":
            self._cancelled += 1
            if latency.ttft_ms is not None:
                self._latencies["ttft_ms"].append(latency.ttft_ms)
            return
        for name, values in self._latencies.items():
            if (value := getattr(latency, name)) is not None:
                values.append(value)
        if self._ok % self._every == 0:
            self._keep_gaps(record)
        self._ok += 1
        # Clocks of different workers are never compared.
        sent = record.end_ns if record.sent_ns is None else record.sent_ns
        first, last, tokens = self._spans.get(record.worker, (sent, record.end_ns, 0))
        tokens += record.completion_tokens or 0
        self._spans[record.worker] = (min(first, sent), max(last, record.end_ns), tokens)

    def _keep_gaps(self, record: Record) -> None:
        """Keep the gaps of one stream; if there are too many, drop every second stream."""
        icl, itl = array("d", icl_ms(record)), array("d", itl_ms(record) or ())
        self._gaps.append((icl if itl == icl else itl, icl))
        if sum(len(icl) for _, icl in self._gaps) > MOST_GAPS:
            self._gaps = self._gaps[::2]
            self._every *= 2

    def latencies(self) -> dict[str, tuple[int, list[float]]]:
        """Metric -> (number of requests, sorted values); without ICL where it equals ITL."""
        latencies = {name: (len(values), sorted(values)) for name, values in self._latencies.items()}
        one_token_each = all(itl is icl for itl, icl in self._gaps)
        for place, name in enumerate(("itl_ms",) if one_token_each else ("itl_ms", "icl_ms")):
            of_requests = [gaps[place] for gaps in self._gaps]
            latencies[name] = (sum(map(bool, of_requests)), sorted(itertools.chain.from_iterable(of_requests)))
        return latencies

    def lines(self) -> list[str]:
        """The lines of the table; empty if no measured request has ended."""
        if not (self._ok or self._cancelled or self._errors):
            return []
        latencies = self.latencies()
        lines = [
            "",
            "Streaming: measured requests without an error",
            _row("", "requests", *map("p{}".format, PERCENTS), "mean"),
        ]
        for name, label, meaning in METRICS:
            if name not in latencies:
                continue
            requests, values = latencies[name]
            cells = [quantile(values, p / 100) if enough(p, requests) else None for p in PERCENTS]
            mean = sum(values) / len(values) if values else None
            lines.append(f"{_row(label, str(requests), *map(_number, [*cells, mean]))}  {meaning}")
        lines.append(f"Output tokens/s over the whole test: {_number(self.tokens_per_s())}")
        errors = ", ".join(f"{kind} {count}" for kind, count in self._errors.most_common())
        cancelled = f"{self._cancelled} cancelled (TTFT only), " if self._cancelled else ""
        failed = f"{sum(self._errors.values())} failed{': ' + errors if errors else ''}"
        lines.append(f"Requests: {self._ok} ok, {cancelled}{failed}")
        if self._every > 1:
            lines.append(f"ITL and ICL rest on every {self._every}th request.")
        if any("–" in line for line in lines):
            lines.append("–: unknown, or withheld; a percentile needs ten requests beyond it (p90: 100, p99: 1,000).")
        return lines

    def tokens_per_s(self) -> float | None:
        """Tokens of the requests without an error, from the first send to the last end; summed over the workers."""
        spans = [(last - first, tokens) for first, last, tokens in self._spans.values()]
        known = [tokens / (span / 1e9) for span, tokens in spans if span > 0 and tokens]
        return sum(known) if known else None

    def print(self) -> None:
        for line in self.lines():
            sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _row(label: str, *cells: str) -> str:
    return f"{label:<6}" + "".join(f"{cell:>10}" for cell in cells)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}"
