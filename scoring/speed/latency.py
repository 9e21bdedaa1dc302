"""Latency and throughput of one cell, from its records only, by the definitions in docs/methodology.md.

Failed requests are in no latency figure. Latencies include measured requests of both phases (measure and drain):
without those that end last, the longest would be missing. Rates count only what lies in the steady window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from records import JsonObject
from records.percentiles import PERCENTILES, enough
from scoring.captures import Capture
from scoring.speed.host import HostFigures
from scoring.speed.output_times import output_shares
from scoring.speed.steady import Steady, find_steady

Floats = NDArray[np.float64]

PER_REQUEST = ("ttft_ms", "ttfa_ms", "tpot_ms", "e2e_ms")
FROM_SCHEDULE = ("ttft_scheduled_ms", "e2e_scheduled_ms")
"""Open-loop load only: the same latencies from when the request was due."""
TO_FIRST_TOKEN = ("ttft_ms", "ttft_scheduled_ms")
"""Latencies that a cancelled request has, too."""
PER_GAP = ("itl_ms", "icl_ms")


@dataclass(slots=True)
class CellFigures:
    """The figures of one engine in one cell of one round.

    `values` maps a metric's name to its value, None where it is withheld or unknown; `counts` maps it to its number of
    requests. `samples` keeps the per-request values for the bootstrap: a latency's name -> its values in ms,
    and `tokens`, `busy_ms` of the ok requests.
    """

    steady: Steady
    requests: pd.DataFrame
    """`per_request` of the whole capture."""
    measured: pd.DataFrame
    """The measured rows that count."""
    good: pd.DataFrame
    """The measured rows that neither failed nor were cancelled."""
    values: dict[str, float | None] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    samples: dict[str, Floats] = field(default_factory=dict)
    prefill_from: str | None = None
    """The source of prefill_tok_s, as text; figures from different sources have no ratio."""
    reserves_memory: bool = False
    """Whether the engine reserves GPU memory as a pool, whose size is a setting."""
    host: HostFigures | None = None
    """The host's figures during the cell."""
    bracket: tuple[float, float] | None = None
    """The highest level that passes and the lowest that fails, of a complete capacity search."""
    searched: bool = False
    """Whether the cell searched a capacity: then its other figures would mix all levels, and are shown per level."""
    steps: dict[float, CellFigures] = field(default_factory=dict)
    """The figures of each level of a sweep or a search (`scoring.speed.steps`)."""


MeasuredRound = tuple[int, JsonObject, CellFigures]
"""A round's number, the scenario.json of the cell in it, and the cell's figures."""


def per_request(capture: Capture) -> pd.DataFrame:
    """One row per request with its latencies in ms (`records.latency_definitions`); NaN: unknown or failed.

    A request that its client cancelled has a TTFT and no other latency.
    """
    frame = capture.requests.copy()
    for name in (*PER_REQUEST, *FROM_SCHEDULE):
        frame[name] = frame[name].where(frame["ok"] | (frame["cancelled"] & (name in TO_FIRST_TOKEN)))
    return frame


def cell_figures(capture: Capture, objectives: Mapping[str, float | None] | None = None) -> CellFigures:
    """All figures of a cell.

    Args:
        capture: one cell of one round.
        objectives: the profile's latency objectives (`ttft_ms`, `tpot_ms`, `e2e_ms`), for goodput.
    """
    frame = per_request(capture)
    measured = frame[frame["measured"]]
    good = measured[measured["ok"]]
    figures = CellFigures(find_steady(capture), frame, measured, good)
    open_loop = bool(good["scheduled_ms"].notna().any())
    for name in (*PER_REQUEST, *(FROM_SCHEDULE if open_loop else ())):
        values = measured[name].dropna().to_numpy(float)
        figures.samples[name] = values
        summarise(figures, name, values, len(values))
    for name, (values, requests) in zip(PER_GAP, _gaps(capture, frame), strict=True):
        summarise(figures, name, values, requests)
    _throughput(figures, capture, objectives)
    _prefill(figures, good)
    return figures


def summarise(figures: CellFigures, name: str, values: Floats, requests: int) -> None:
    """Put percentiles and mean of a latency among the figures; `requests` is how many requests it is of."""
    quantiles = np.percentile(values, PERCENTILES) if len(values) else [None] * len(PERCENTILES)
    for percent, value in zip(PERCENTILES, quantiles, strict=True):
        withheld = value is None or not enough(percent, requests)
        figures.values[f"{name}_p{percent}"] = None if withheld else float(value)
        figures.counts[f"{name}_p{percent}"] = requests
    figures.values[f"{name}_mean"] = float(values.mean()) if len(values) else None
    figures.counts[f"{name}_mean"] = requests


def _gaps(capture: Capture, frame: pd.DataFrame) -> tuple[tuple[Floats, int], tuple[Floats, int]]:
    """Gaps of all ok measured requests in ms: (ITL per token, its requests), (ICL per arrival, its requests).

    Equals `records.latency_definitions.itl_ms` and `icl_ms` of every record, computed on arrays.
    """
    chunks = frame["chunks"].to_numpy(np.int64)
    use = (frame["measured"] & frame["ok"] & frame["streamed"]).to_numpy(bool) & (chunks > 1)
    if not use.any():
        return (np.empty(0), 0), (np.empty(0), 0)
    owner = np.repeat(np.arange(len(chunks)), chunks)
    arrives = np.ones(len(owner), bool)
    arrives[1:] = (np.diff(capture.chunk_ns) != 0) | (np.diff(owner) != 0)
    starts = np.flatnonzero(arrives)
    owner, stamps = owner[starts], capture.chunk_ns[starts]
    brought = np.maximum(np.add.reduceat(np.where(capture.chunk_tokens < 0, 1, capture.chunk_tokens), starts), 1)[1:]
    gaps = np.diff(stamps) / 1e6
    # A gap belongs to the request of the arrival at its end, unless that is the request's first arrival.
    inner = (np.diff(owner) == 0) & use[owner[1:]]
    itl_requests = use & frame["token_events"].to_numpy(bool)
    chosen = inner & itl_requests[owner[1:]]
    itl = np.repeat(gaps[chosen] / brought[chosen], brought[chosen])
    return (itl, int(itl_requests.sum())), (gaps[inner], int(use.sum()))


def _throughput(figures: CellFigures, capture: Capture, objectives: Mapping[str, float | None] | None) -> None:
    """Add the rates inside the steady window, summed over workers, and output_tok_s_whole.

    A request and its tokens count by the share of its output that was generated inside the window (`output_shares`).
    """
    steady, good = figures.steady, figures.good
    workers = {str(worker): steady.of(str(worker)) for worker in good["worker"].unique()}
    shares = output_shares(capture, figures.requests, workers)[(figures.requests["measured"] & figures.requests["ok"])]
    asked = {key: limit for key, limit in (objectives or {}).items() if limit is not None}
    met = _met(good, asked)
    tok_s, tok_s_whole, req_s, good_s = 0.0, 0.0, 0.0, 0.0
    for worker, mine in good.groupby("worker", sort=True):
        own = good["worker"].to_numpy() == worker
        seconds = sum(window.length_s for window in workers[str(worker)])
        measured = figures.measured[figures.measured["worker"] == worker]
        whole_s = (measured["end_ms"].max() - measured["sent_ms"].min()) / 1000 - steady.paused_s(str(worker))
        tokens = mine["completion_tokens"].to_numpy(float)
        if whole_s > 0:
            tok_s_whole += tokens.sum() / whole_s
        if not seconds:
            continue
        share = shares[own]
        req_s += share.sum() / seconds
        tok_s += (share * tokens).sum() / seconds
        if met is not None:
            good_s += share[met[own]].sum() / seconds
    have_window = bool(steady.windows) and len(good) > 0
    # If one answer has an unknown length, every sum of tokens is too small.
    have_tokens = len(good) > 0 and bool(good["completion_tokens"].notna().all())
    figures.values["output_tok_s"] = float(tok_s) if have_window and have_tokens else None
    figures.values["output_tok_s_whole"] = float(tok_s_whole) if have_tokens else None
    figures.values["requests_s"] = float(req_s) if have_window else None
    if asked:
        figures.values["goodput_s"] = float(good_s) if have_window and met is not None else None
    for name in ("output_tok_s", "output_tok_s_whole", "requests_s", "goodput_s"):
        if name in figures.values:
            figures.counts[name] = len(good)
    figures.samples["tokens"] = good["completion_tokens"].to_numpy(float)
    figures.samples["busy_ms"] = (good["end_ms"] - good["sent_ms"]).to_numpy(float)
    if met is not None:
        figures.samples["met"] = met.astype(float)


def _met(good: pd.DataFrame, objectives: Mapping[str, float]) -> NDArray[np.bool_] | None:
    """Which requests met every objective; None where the TPOT of any of them is unknown.

    In an open loop, TTFT and E2E count from when a request was due, because its caller also waits for a free user.
    A request of one token has no TPOT and cannot miss that objective.
    """
    met = np.ones(len(good), bool)
    due = good["scheduled_ms"].notna().to_numpy()
    for key, limit in objectives.items():
        values = good[key].to_numpy(float)
        if key == "tpot_ms":
            no_interval = good["completion_tokens"].lt(2).to_numpy()
            if (np.isnan(values) & ~no_interval).any():
                return None
            met &= (values <= limit) | no_interval
        else:
            late = good[f"{key.removesuffix('_ms')}_scheduled_ms"].to_numpy(float)
            met &= np.where(due, late, values) <= limit
    return met


def _prefill(figures: CellFigures, good: pd.DataFrame) -> None:
    """Add prompt tokens per second: from the server's timings (without queue), else from TTFT with one in flight."""
    timed = good[(good["server_prompt_ms"] > 0) & (good["server_prompt_n"] > 0)]
    if len(timed):
        tokens, ms = timed["server_prompt_n"].to_numpy(float), timed["server_prompt_ms"].to_numpy(float)
        figures.prefill_from = "the server's own timings"
    else:
        alone = good[good["prompt_tokens"].notna() & good["ttft_ms"].gt(0)] if figures.steady.asked == 1 else good[:0]
        tokens = (alone["prompt_tokens"] - alone["cached_tokens"].fillna(0)).to_numpy(float)
        ms = alone["ttft_ms"].to_numpy(float)
        figures.prefill_from = "TTFT" if len(alone) else None
    figures.values["prefill_tok_s"] = float(tokens.sum() / ms.sum() * 1000) if len(tokens) else None
    figures.counts["prefill_tok_s"] = len(tokens)
    figures.samples["prefill_tokens"], figures.samples["prefill_ms"] = tokens, ms
