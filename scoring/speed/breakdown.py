"""Splits the mean time of a request into queue, prefill and decode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from records import JsonObject
from scoring.speed.latency import CellFigures


@dataclass(frozen=True, slots=True)
class Means:
    """Means over the ok measured requests of a cell, in ms; `server_prefill` None where the engine sends no timings."""

    ttft: float
    e2e: float
    server_prefill: float | None
    concurrency: int | None


def cell_means(rounds: Sequence[CellFigures]) -> Means | None:
    """The means for `split`; None where no request was ok."""
    good = pd.concat([f.good for f in rounds]) if rounds else None
    if good is None or not good["ttft_ms"].notna().any():
        return None
    prefills = good["server_prompt_ms"].dropna()
    return Means(
        ttft=float(good["ttft_ms"].mean()),
        e2e=float(good["e2e_ms"].mean()),
        server_prefill=float(prefills.mean()) if len(prefills) == len(good) else None,
        concurrency=rounds[0].steady.asked,
    )


def split(workload: str, engine: str, means: Means, alone: Mapping[tuple[str, str], Means]) -> JsonObject:
    """{queue_ms, prefill_ms, decode_ms, e2e_ms, source} of one engine in one cell; the three add up to e2e_ms.

    `alone` has the means at concurrency 1, by workload and engine.
    """
    if means.server_prefill is not None:
        prefill: float | None = min(means.server_prefill, means.ttft)
        source = "server timings: prefill as the engine reports it, queue is the rest of TTFT (with the network)"
    elif means.concurrency == 1:
        prefill = means.ttft
        source = "with one request in flight nothing queues: all of TTFT is prefill (with the network)"
    elif (single := alone.get((workload, engine))) is not None:
        prefill = min(single.ttft, means.ttft)
        source = "prefill is TTFT at concurrency 1; queue is TTFT under load minus that"
    else:
        prefill = None
        source = "no server timings, and no cell with concurrency 1 on this workload: TTFT cannot be split"
    return {
        "queue_ms": None if prefill is None else means.ttft - prefill,
        "prefill_ms": prefill,
        "ttft_ms": means.ttft,
        "decode_ms": means.e2e - means.ttft,
        "e2e_ms": means.e2e,
        "source": source,
    }
