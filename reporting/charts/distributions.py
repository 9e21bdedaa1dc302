"""Draws latency distributions: an empirical distribution function per cell and metric, all engines on one axis."""

from __future__ import annotations

import numpy as np

from records.percentiles import enough
from reporting.charts.chart import BOTTOM, LEFT, RIGHT, TOP, Chart, Draw
from reporting.charts.scale import Scale, fitting, thin
from reporting.charts.svg import Plot
from reporting.escape import one_line
from reporting.format import figure

POINTS = 400
QUANTILES = (5, 25, 50, 75, 90, 95, 99)

Samples = dict[tuple[str, str, str], list[float]]
"""Latencies by (engine, cell, metric)."""


def distributions(draw: Draw) -> list[Chart]:
    """TTFT and TPOT of every cell, over the ok measured requests of all rounds."""
    everything = _samples(draw)
    charts = []
    for cell in draw.view.cells:
        for metric, name in (("ttft_ms", "TTFT"), ("tpot_ms", "TPOT")):
            by_engine = {engine: everything.get((engine, cell, metric)) for engine in draw.view.engines}
            found = {engine: sorted(values) for engine, values in by_engine.items() if values}
            if found:
                charts.append(_ecdf(draw, cell, name, found))
    return charts


def _samples(draw: Draw) -> Samples:
    """Latencies from `requests`; if a cell has none there, the quantiles of its series."""
    found: Samples = {}
    for row in draw.cell_series:
        for metric, values in (row.get("distributions") or {}).items():
            found.setdefault((row["engine"], row["cell"], metric), []).extend(map(float, values or []))
    exact: Samples = {}
    for row in draw.view.rows("requests"):
        if row.get("status") != "ok" or row.get("phase") == "warmup":
            continue
        for metric in ("ttft_ms", "tpot_ms"):
            if (value := row.get(metric)) is not None:
                exact.setdefault((row["engine"], row["cell"], metric), []).append(float(value))
    return found | exact


def _ecdf(draw: Draw, cell: str, name: str, samples: dict[str, list[float]]) -> Chart:
    everything = [value for values in samples.values() for value in (values[0], values[-1])]
    plot = Plot(
        fitting(everything, LEFT, RIGHT), Scale(0, 1, BOTTOM, TOP), x_label="ms", y_label="share of requests",
        y_ticks=[(0, "0"), (0.25, "25%"), (0.5, "50%"), (0.75, "75%"), (1, "100%")],
    )  # fmt: skip
    rows = []
    for engine, values in samples.items():
        n = len(values)
        steps = [(value, (i + 1) / n) for i, value in enumerate(values)]
        plot.line([(values[0], 0.0), *thin(steps, POINTS)], draw.css[engine], draw.names[engine], steps=True)
        quantiles = [np.percentile(values, q) if enough(q, n) else None for q in QUANTILES]
        rows.append([draw.names[engine], f"{n:,}", *(figure(value) for value in quantiles), figure(values[-1])])
    title = f"{name}, {one_line(cell)}"
    medians = ", ".join(f"{draw.names[e]} {figure(np.percentile(v, 50))} ms" for e, v in samples.items())
    return Chart(
        title,
        draw.picture(title, f"Cumulative distribution of {name}. Medians: {medians}.", [plot]),
        ["engine", "n", *(f"p{q}" for q in QUANTILES), "max"],
        rows,
        draw.legend(list(samples)),
    )
