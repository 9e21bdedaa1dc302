"""Draws the load over time: tokens and requests in flight of each cell, power and memory of the GPU."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from records import JsonObject
from reporting.charts.chart import BOTTOM, LEFT, RIGHT, TOP, Chart, Draw
from reporting.charts.scale import Scale, linear, tick_label
from reporting.charts.svg import Plot
from reporting.escape import one_line
from reporting.format import figure

TABLE_ROWS = 24


def load(draw: Draw) -> list[Chart]:
    """One picture per cell and engine, of its first round; the pictures of a cell share their scales."""
    first: dict[tuple[str, str], JsonObject] = {}
    for row in draw.cell_series:
        key = (row["cell"], row["engine"])
        if key not in first or row["round"] < first[key]["round"]:
            first[key] = row
    charts = []
    for cell in dict.fromkeys(cell for cell, _ in first):
        rows = [first[cell, engine] for engine in draw.view.engines if (cell, engine) in first]
        ends = [
            t for row in rows for t in (*_tokens_x(row)[-1:], *((row.get("in_flight") or {}).get("t_s") or [0])[-1:])
        ]
        tops = [rate for row in rows for rate in (row.get("tokens") or {}).get("tok_s") or []]
        most = [n for row in rows for n in (row.get("in_flight") or {}).get("n") or []]
        scales = (linear(ends, LEFT, RIGHT), linear(tops, 150, TOP), linear(most, 226, 184, about=2))
        charts += [_load(draw, row, *scales) for row in rows if row.get("tokens") or row.get("in_flight")]
    return charts


def _load(draw: Draw, row: JsonObject, x: Scale, y: Scale, y_flight: Scale) -> Chart:
    engine, css, name = row["engine"], f"{draw.css[row['engine']]} alone", draw.names[row["engine"]]
    upper = Plot(x, y, y_label="tok/s", x_ticks=[])
    most = max((row.get("in_flight") or {}).get("n") or [1])
    lower = Plot(x, y_flight, x_label="s", y_label="in flight", y_ticks=[(v, tick_label(v)) for v in (0, most)])
    windows = [(float(w[0]), float(w[1])) for w in row.get("steady_s") or []]
    for low, high in windows:
        for plot in (upper, lower):
            plot.shade(low, high, f"steady window, {figure(low)} s to {figure(high)} s")
    edges, rates = _tokens_x(row), (row.get("tokens") or {}).get("tok_s") or []
    if rates:
        upper.line([*zip(edges, rates, strict=False), (edges[-1], rates[-1])], css, name, steps=True)
    flight = row.get("in_flight") or {}
    curve = list(zip(flight.get("t_s") or [], flight.get("n") or [], strict=True))
    if curve:
        lower.line(curve, css, f"{name}, in flight", steps=True)
    rows = [
        [figure(edges[i]), figure(sum(rates[i:j]) / (j - i)), figure(_held(curve, edges[i]))]
        for i, j in _chunks(len(rates), TABLE_ROWS)
    ]
    title = f"{name}, {one_line(row['cell'])}"
    steady = ", ".join(f"{figure(low)} to {figure(high)} s" for low, high in windows) or "none was reached"
    return Chart(
        title,
        draw.picture(f"Load over time, {title}", f"Steady window: {steady}.", [upper, lower], height=266),
        ["from s", "tok/s (mean)", "in flight"],
        rows,
        draw.legend([engine]),
        f"Round {row['round']}. Steady window: {steady}.",
    )


def gpu(draw: Draw) -> list[Chart]:
    """Board power and memory of each round; empty if no GPU was metered."""
    charts = []
    for key, name, unit in (("power_w", "Power", "W"), ("memory_mib", "Memory", "MiB")):
        curves = [(row, _curve(row.get(key))) for row in draw.gpu_series]
        curves = [(row, curve) for row, curve in curves if curve and row["engine"] in draw.css]
        if not curves:
            continue
        xs = [x for _, curve in curves for x, _ in curve[-1:]]
        ys = [y for _, curve in curves for _, y in curve]
        plot = Plot(
            linear(xs, LEFT, RIGHT), linear(ys, BOTTOM, TOP), x_label="s since the engine's start", y_label=unit
        )
        rows = []
        for row, curve in curves:
            engine = draw.names[row["engine"]]
            plot.line(curve, draw.css[row["engine"]], f"{engine}, round {row['round']}")
            values = sorted(y for _, y in curve)
            rows.append(
                [engine, str(row["round"]), figure(values[0]), figure(np.percentile(values, 50)), figure(values[-1])]
            )
        title = f"{name} over time"
        svg = draw.picture(title, f"{name} in {unit} of each round.", [plot])
        legend = draw.legend(list(dict.fromkeys(row["engine"] for row, _ in curves)))
        charts.append(Chart(title, svg, ["engine", "round", f"least {unit}", "median", "most"], rows, legend))
    return charts


def _curve(samples: JsonObject | None) -> list[tuple[float, float]]:
    return list(zip(samples["t_s"], samples["values"], strict=True)) if samples else []


def _tokens_x(row: JsonObject) -> list[float]:
    """The edges of the token bins in s, one more than there are bins."""
    tokens = row.get("tokens") or {}
    return [i * tokens["bin_s"] for i in range(len(tokens["tok_s"]) + 1)] if tokens else []


def _held(curve: Sequence[tuple[float, float]], x: float) -> float | None:
    """The value of a step curve at x."""
    found = None
    for at, value in curve:
        if at > x:
            break
        found = value
    return found


def _chunks(total: int, pieces: int) -> list[tuple[int, int]]:
    edges = sorted({round(i * total / pieces) for i in range(pieces + 1)})
    return list(itertools.pairwise(edges))
