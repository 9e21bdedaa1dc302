"""Latency objectives, and whether a request met them: the rule of goodput and of the capacity search."""

from __future__ import annotations

import math
from collections.abc import Mapping

from records.latency_definitions import Withheld, timing
from records.record import Record

OBJECTIVES = ("ttft_ms", "tpot_ms", "e2e_ms")


def parse_objectives(text: str) -> dict[str, float]:
    """The limits of `ttft_ms=500,tpot_ms=50`, in ms.

    Raises:
        ValueError: something else; one line that says what was expected.
    """
    limits: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        try:
            limit = float(value)
        except ValueError:
            limit = 0.0
        if name not in OBJECTIVES or not math.isfinite(limit) or limit <= 0:
            raise ValueError(f"{part!r}: NAME=MS was expected, with a name of {', '.join(OBJECTIVES)}")
        limits[name] = limit
    return limits


def objectives_text(limits: Mapping[str, float | None]) -> str:
    """The limits as `parse_objectives` reads them; empty without any."""
    return ",".join(f"{name}={limit:g}" for name, limit in limits.items() if limit is not None)


def met(record: Record, limits: Mapping[str, float]) -> bool | None:
    """Whether a request met every objective. A failed one did not. None: a TPOT is asked for and unknown.

    In an open loop the clock of TTFT and E2E starts when the request was due. An answer of one token has no TPOT to
    miss.
    """
    if not record.ok:
        return False
    times = timing(record)
    due = record.scheduled_ns is not None
    for name, limit in limits.items():
        if name == "tpot_ms":
            value = times.tpot_ms
            if value is None and times.withheld is not Withheld.TOO_SHORT:
                return None
        else:
            value = getattr(times, name.replace("_ms", "_scheduled_ms") if due else name)
            if value is None:
                return False
        if value is not None and value > limit:
            return False
    return True
