"""Computes a load client's error: compares its report of a pacing server with that server's own log.

Pure functions. The server writes its send stamp into each chunk's text (`Schedule.stamps`), on the same monotonic
clock as the client's. So lag is a subtraction, and the first stamp of a request identifies its row in the server's log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from records import Phase, Record
from records.latency_definitions import Timing, timing
from records.wording import count

TTFT_LIMIT_MS = 5.0
TPOT_LIMIT_PERCENT = 0.5
LAG_LIMIT_US = 5_000.0
CPU_LIMIT = 0.8
SERVER_LATE_LIMIT_MS = 5.0
"""Limits for the verdict "fit"; the figures are shown beside it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as the client reported it; `stamps` are the server's, from the text, one per arrival."""

    sent_ns: int
    arrivals: Sequence[int]
    stamps: Sequence[int]
    tokens: int | None

    @classmethod
    def of(cls, record: Record) -> Seen:
        """Parse the stamps in a record's text.

        Raises:
            ValueError: the text has no stamps, so it is not a pacing server's answer.
        """
        stamps, at = [], 0
        for chars in record.chunk_chars:
            stamps.append(int(record.text[at : at + chars].split()[0]))
            at += chars
        assert record.sent_ns is not None
        return cls(record.sent_ns, record.chunk_ns, stamps, record.completion_tokens)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Reported and true figures. An error is reported minus true per request; TPOT's is in percent, of medians."""

    requests: int
    chunks: int
    ttft_ms_p50: float
    ttft_ms_p99: float
    ttft_true_ms_p50: float
    ttft_true_ms_p99: float
    ttft_error_ms_p50: float
    ttft_error_ms_p99: float
    tpot_ms_p50: float
    tpot_true_ms_p50: float
    tpot_error_percent: float
    lag_us_p50: float
    lag_us_p99: float
    server_late_ms_p99: float


def accuracy(seen: Sequence[Seen], truth: Iterable[Mapping[str, Any]]) -> Accuracy:
    """Match requests with the server's log, and compute the errors.

    Raises:
        ValueError: the server's log lacks a request, or no request was answered.
    """
    rows = {row["first_ns"]: row for row in truth if row["finished"]}
    ttft, ttft_true, tpot, tpot_true, lags, late = [], [], [], [], [], []
    for request in seen:
        row = rows.get(request.stamps[0]) if request.stamps else None
        if row is None:
            raise ValueError("the pacing server's log lacks a request")
        reported = _timing(request.sent_ns, request.arrivals, request.tokens)
        true = _timing(row["received_ns"], request.stamps, row["tokens"])
        ttft.append(reported.ttft_ms)
        ttft_true.append(true.ttft_ms)
        if reported.tpot_ms is not None and true.tpot_ms is not None:
            tpot.append(reported.tpot_ms)
            tpot_true.append(true.tpot_ms)
        lags.append(np.subtract(request.arrivals, request.stamps) / 1e3)
        late.append(row["late_ns"] / 1e6)
    if not ttft:
        raise ValueError("no request was answered")
    lag = np.concatenate(lags)
    error = np.subtract(np.array(ttft, dtype=float), np.array(ttft_true, dtype=float))
    tpot_p50, tpot_true_p50 = _quantile(tpot, 50), _quantile(tpot_true, 50)
    return Accuracy(
        requests=len(ttft),
        chunks=len(lag),
        ttft_ms_p50=_quantile(ttft, 50),
        ttft_ms_p99=_quantile(ttft, 99),
        ttft_true_ms_p50=_quantile(ttft_true, 50),
        ttft_true_ms_p99=_quantile(ttft_true, 99),
        ttft_error_ms_p50=_quantile(error, 50),
        ttft_error_ms_p99=_quantile(error, 99),
        tpot_ms_p50=tpot_p50,
        tpot_true_ms_p50=tpot_true_p50,
        tpot_error_percent=100 * (tpot_p50 / tpot_true_p50 - 1) if tpot_true_p50 else float("nan"),
        lag_us_p50=_quantile(lag, 50),
        lag_us_p99=_quantile(lag, 99),
        server_late_ms_p99=_quantile(late, 99),
    )


def _timing(sent_ns: int, stamps: Sequence[int], tokens: int | None) -> Timing:
    """Latencies by the definitions for records, from stamps only. All chunks of the server have equally many tokens."""
    each, rest = divmod(tokens or 0, max(len(stamps), 1))
    return timing(
        Record(
            id="", engine="", cell="", round=1, worker="", user=0, seq=0, attempt=1, workload="", prompt_id="",
            prompt_sha256="", sample=0, phase=Phase.MEASURE, connect_ns=None, scheduled_ns=None, sent_ns=sent_ns,
            end_ns=stamps[-1], first_token_ns=stamps[0], last_token_ns=stamps[-1], chunk_ns=list(stamps),
            chunk_tokens=[each] * len(stamps) if each and not rest else None, completion_tokens=tokens,
        )
    )  # fmt: skip


def _quantile(values: Any, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else float("nan")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of `calibrate`: the figures for one number of streams."""

    streams: int
    accuracy: Accuracy
    errors: int
    cpu_us_per_chunk: float | None
    cpu_share: float | None
    loop_lag_ms_p99: float | None


def complaints(row: Row) -> list[str]:
    """The reasons why the client is not fit at this number of streams, as texts; empty if it is fit."""
    reasons, seen = [], row.accuracy
    if row.errors:
        reasons.append(f"{count(row.errors, 'request')} failed")
    if abs(seen.ttft_error_ms_p99) > TTFT_LIMIT_MS:
        reasons.append(f"TTFT is {seen.ttft_error_ms_p99:.1f} ms off at the 99th percentile")
    if abs(seen.tpot_error_percent) > TPOT_LIMIT_PERCENT:
        reasons.append(f"TPOT is {seen.tpot_error_percent:+.2f}% off")
    if seen.lag_us_p99 > LAG_LIMIT_US:
        reasons.append(f"chunks are seen {seen.lag_us_p99 / 1000:.1f} ms late at the 99th percentile")
    if row.cpu_share is not None and row.cpu_share > CPU_LIMIT:
        reasons.append(f"the client uses {row.cpu_share:.0%} of a core")
    return reasons


def verdict(rows: Sequence[Row]) -> str:
    """One line: up to how many streams the client's figures are valid on this host, and what limits it."""
    fit: int | None = None
    for row in rows:
        if reasons := complaints(row):
            upto = f"fit up to {count(fit, 'stream')}" if fit else "not fit"
            cause = f"; at {row.streams}: {', '.join(reasons)}"
            if row.accuracy.server_late_ms_p99 > SERVER_LATE_LIMIT_MS:
                # A late server has the same effect as a slow client, so the cause is unknown.
                late = f"{row.accuracy.server_late_ms_p99:.1f} ms late itself"
                return f"{upto}{cause}; the pacing server was {late}: this host is too busy or too slow to tell"
            return upto + cause
        fit = row.streams
    return f"fit up to {count(fit, 'stream')}, the most that was tried" if fit else "nothing was tried"
