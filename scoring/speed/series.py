"""Builds the series for charts, thinned to at most `MAX_POINTS` points, so that a report needs only the JSON."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from records import JsonObject
from scoring.captures import Capture
from scoring.speed.latency import CellFigures
from scoring.speed.output_times import chunk_times_ms, tokens_of_chunks
from scoring.speed.steady import in_flight_curve

Floats = NDArray[np.float64]

MAX_POINTS = 1000
BINS = 200
QUANTILES = 101


def thinned(x: Floats, y: Floats, limit: int = MAX_POINTS) -> tuple[list[float], list[float]]:
    """Evenly chosen points of a curve, including its first and last."""
    if len(x) > limit:
        chosen = np.unique(np.linspace(0, len(x) - 1, limit).astype(int))
        x, y = x[chosen], y[chosen]
    return [round(float(v), 4) for v in x], [round(float(v), 4) for v in y]


def cell_series(capture: Capture, figures: CellFigures) -> JsonObject:
    """{engine, cell, round, steady_s, in_flight, tokens, distributions} of one cell of one round.

    Times are seconds since the worker's first measured send; several workers are overlaid, each on its own clock.
    `tokens` has tokens per second in equal bins, `distributions` the quantiles 0, 1 ... 100% in ms.
    """
    measured = figures.measured
    zero = float(measured["sent_ms"].min()) if measured["sent_ms"].notna().any() else 0.0
    return {
        "engine": capture.engine,
        "cell": capture.cell,
        "round": capture.round,
        "steady_s": [
            [round((w.start_ms - zero) / 1000, 4), round((w.end_ms - zero) / 1000, 4)] for w in figures.steady.windows
        ],
        "in_flight": _in_flight(figures, zero),
        "tokens": _tokens(capture, figures, zero),
        "distributions": {
            name: [round(float(v), 4) for v in np.percentile(values, np.linspace(0, 100, QUANTILES))]
            for name, values in figures.samples.items()
            if name in ("ttft_ms", "tpot_ms", "e2e_ms") and len(values)
        },
    }


def _in_flight(figures: CellFigures, zero: float) -> JsonObject:
    measured = figures.measured
    # User numbers of different workers are different users.
    everyone = measured.assign(user=measured.groupby(["worker", "user"], sort=True).ngroup())
    times, number = in_flight_curve(everyone)
    t, n = thinned((times - zero) / 1000, number.astype(float))
    return {"t_s": t, "n": n}


def _tokens(capture: Capture, figures: CellFigures, zero: float) -> JsonObject | None:
    weights = tokens_of_chunks(capture, figures.requests)
    if weights is None or not (weights > 0).any():
        return None
    use = weights > 0
    seconds = (chunk_times_ms(capture, figures.requests) - zero) / 1000
    end = float(seconds[use].max())
    width = max(end, 1e-3) / BINS
    where = np.clip((seconds[use] / width).astype(int), 0, BINS - 1)
    rate = np.bincount(where, weights=weights[use], minlength=BINS) / width
    return {"bin_s": width, "tok_s": [round(float(value), 3) for value in rate]}
