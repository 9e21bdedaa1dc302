"""Computes the figures of each step of a sweep, each phase of a ramp, and each turn of conversations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from load.live_percentiles import quantile
from load.schedule.admission import Admission
from records import Phase, Record
from records.latency_definitions import timing

PartOf = Callable[[Record], str | None]
"""Returns the part of the test to which a record belongs; None if the test has no parts."""


@dataclass(slots=True)
class _Span:
    """One worker's tokens of a part, from its first send to its last end by its own clock."""

    tokens: int = 0
    first_sent: float = math.inf
    last_end: float = -math.inf

    @property
    def tokens_per_s(self) -> float | None:
        span = self.last_end - self.first_sent
        return self.tokens / span if span > 0 else None


@dataclass(slots=True)
class Part:
    """One step, phase or turn, over all workers."""

    has_rate: bool = True
    """False for turns: those of one number are sent among all others, so that they have no rate of their own."""
    ok: int = 0
    errors: int = 0
    spans: dict[str, _Span] = field(default_factory=dict)
    values: dict[str, list[float]] = field(default_factory=lambda: {"ttft_ms": [], "tpot_ms": [], "e2e_ms": []})

    def add(self, record: Record) -> None:
        """Add a measured request."""
        self.errors += record.failed
        if not record.ok:
            return
        self.ok += 1
        span = self.spans.setdefault(record.worker, _Span())
        span.tokens += record.completion_tokens or 0
        span.first_sent = min(span.first_sent, _sent_ns(record) / 1e9)
        span.last_end = max(span.last_end, record.end_ns / 1e9)
        latency = timing(record)
        for name, values in self.values.items():
            if (value := getattr(latency, name)) is not None:
                values.append(value)

    def summary(self, name: str) -> dict[str, Any]:
        """The figures; tokens/s run from a worker's first send to its last end in the part, summed over workers."""
        rates = [rate for span in self.spans.values() if (rate := span.tokens_per_s) is not None]
        return {
            "name": name,
            "ok": self.ok,
            "errors": self.errors,
            "tokens_per_s": sum(rates) if rates and self.has_rate else None,
            **{f"{metric}_p50": quantile(sorted(values), 0.5) for metric, values in self.values.items()},
        }


def _sent_ns(record: Record) -> int:
    return record.end_ns if record.sent_ns is None else record.sent_ns


def turn_of(record: Record) -> str | None:
    """Names the turn of a conversation, which any process can tell of any record."""
    return None if record.turn is None else f"turn {record.turn}"


def parts_of(admission: Admission, kind: str, step_by: str) -> PartOf:
    """Names the step or phase of a record, by the time it was sent. The records are this process's."""

    def of_sweep(record: Record) -> str | None:
        sent = _sent_ns(record)
        unit = "requests/s" if step_by == "rate" else "users"
        for step in admission.sweep.steps if admission.sweep else ():
            if step.start_ns is not None and step.start_ns <= sent and (step.end_ns is None or sent <= step.end_ns):
                return f"{step.level:g} {unit}"
        return None

    def of_ramp(record: Record) -> str | None:
        if record.phase == Phase.DRAIN:
            return "drain"
        arrived = admission.all_arrived_ns
        return "users join" if arrived is None or _sent_ns(record) < arrived else "all users"

    return {"sweep": of_sweep, "capacity": of_sweep, "ramp": of_ramp}.get(kind, turn_of)
