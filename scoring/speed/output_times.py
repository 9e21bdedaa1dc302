"""Estimates when the tokens of a cell were generated, from the arrivals of its chunks, and counts them in a window.

The token of a one-token chunk counts at its arrival. Several tokens of one chunk were generated since the chunk before
it, and count evenly over that time. For a request's first chunk with k tokens the start is unknown: it is taken as
k x TPOT before the arrival, or as the sending if one chunk has all tokens.

So an engine that bundles its tokens and one that sends each at once have the same throughput in the same window. The
share of the request's whole time would be wrong: an engine with a queue would gain the time that requests wait in it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from scoring.captures import Capture
from scoring.speed.steady import Window

Floats = NDArray[np.float64]


def chunk_times_ms(capture: Capture, frame: pd.DataFrame) -> Floats:
    """Arrival of every chunk, in ms on its worker's own clock."""
    origins = frame["worker"].map(capture.origins).to_numpy(np.int64)
    return np.asarray((capture.chunk_ns - np.repeat(origins, frame["chunks"].to_numpy(np.int64))) / 1e6, dtype=float)


def tokens_of_chunks(capture: Capture, frame: pd.DataFrame) -> Floats | None:
    """The tokens of every chunk of the capture; 0 for warm-up and failed requests.

    A request's completion_tokens are spread over its chunks: in proportion to chunk_tokens where those are known,
    else evenly. None where the tokens of an ok measured request are unknown, since every sum would be too small.
    """
    counted = (frame["measured"] & frame["ok"]).to_numpy(bool)
    tokens = frame["completion_tokens"].to_numpy(float)
    if np.isnan(tokens[counted]).any():
        return None
    return _spread(capture, frame, np.where(counted, tokens, 0.0))


def output_shares(capture: Capture, frame: pd.DataFrame, windows: dict[str, list[Window]]) -> Floats:
    """The share (0 to 1) of each request's output that was generated inside its worker's windows; 0 without chunks.

    Args:
        capture: one cell of one round.
        frame: one row per request, in the order of the capture.
        windows: the steady windows of each worker.
    """
    tokens = frame["completion_tokens"].fillna(0).to_numpy(float)
    chunks = frame["chunks"].to_numpy(np.int64)
    # Where the tokens are unknown, every chunk counts as one token.
    weights = _spread(capture, frame, np.where(tokens > 0, tokens, chunks))
    owner = np.repeat(np.arange(len(chunks)), chunks)
    starts, ends = _generated(frame, owner, chunk_times_ms(capture, frame), weights)
    inside = np.zeros(len(owner))
    workers = frame["worker"].astype(str).to_numpy()[owner]
    for worker, own in windows.items():
        for window in own:
            reach = np.minimum(ends, window.end_ms) - np.maximum(starts, window.start_ms)
            spans = ends > starts
            share = np.where(spans, np.clip(reach, 0, None) / np.where(spans, ends - starts, 1.0), reach >= 0)
            inside += np.where(workers == worker, share, 0.0)
    total = np.bincount(owner, weights=weights, minlength=len(chunks))
    counted = np.bincount(owner, weights=weights * inside, minlength=len(chunks))
    return np.asarray(np.divide(counted, total, out=np.zeros(len(chunks)), where=total > 0), dtype=float)


def _spread(capture: Capture, frame: pd.DataFrame, tokens: Floats) -> Floats:
    """Distribute each request's tokens over its chunks."""
    chunks = frame["chunks"].to_numpy(np.int64)
    owner = np.repeat(np.arange(len(chunks)), chunks)
    weight = np.where(capture.chunk_tokens_known()[owner], capture.chunk_tokens, 1).astype(float)
    total = np.bincount(owner, weights=weight, minlength=len(chunks))
    scale = np.divide(tokens, total, out=np.zeros(len(chunks)), where=total > 0)
    return np.asarray(weight * scale[owner], dtype=float)


def _generated(
    frame: pd.DataFrame, owner: NDArray[np.int64], arrivals: Floats, tokens: Floats
) -> tuple[Floats, Floats]:
    """(start, end) in ms of the generation of each chunk's tokens; start equals end for a single token."""
    if not len(owner):
        return arrivals, arrivals
    first = np.ones(len(owner), bool)
    first[1:] = np.diff(owner) != 0
    before = np.concatenate([arrivals[:1], arrivals[:-1]])
    rows = owner[first]
    opening, last = arrivals[first], np.full(len(frame), np.nan)
    last[owner] = arrivals
    later = np.bincount(owner[~first], weights=tokens[~first], minlength=len(frame))[rows]
    tpot = np.divide(last[rows] - opening, later, out=np.full(len(rows), np.inf), where=later > 0)
    sent = frame["sent_ms"].to_numpy(float)[rows]
    before[first] = np.fmax(sent, opening - tpot * tokens[first])
    return np.where(tokens > 1, before, arrivals), arrivals
