"""TTFT over the turns of conversations, and over the tokens that could have come from a cache."""

from __future__ import annotations

from dataclasses import dataclass

from reporting.charts.chart import BOTTOM, LEFT, RIGHT, TOP, Chart, Draw
from reporting.charts.scale import Scale, linear
from reporting.charts.svg import Plot
from reporting.escape import one_line
from reporting.format import figure

MOST_DOTS = 1500
"""Of one engine; of more requests every second one is drawn, every third ..."""


@dataclass(frozen=True, slots=True)
class _Median:
    """The median TTFT of one turn, in ms."""

    turn: int
    ms: float
    ci: list[float] | None
    n: int


def turns(draw: Draw) -> list[Chart]:
    """One chart per cell of conversations: median TTFT of each turn with its interval."""
    cells: dict[str, dict[str, list[_Median]]] = {}
    for row in draw.view.rows("turns"):
        for engine, told in row["engines"].items():
            if row["metric"] == "ttft_ms_p50" and told["value"] is not None and engine in draw.css:
                median = _Median(row["turn"], told["value"], told["ci"], told["n"])
                cells.setdefault(row["cell"], {}).setdefault(engine, []).append(median)
    return [_turns(draw, cell, engines) for cell, engines in cells.items()]


def _turns(draw: Draw, cell: str, engines: dict[str, list[_Median]]) -> Chart:
    everything = [median for mine in engines.values() for median in mine]
    last = max(median.turn for median in everything)
    plot = Plot(
        Scale(0.5, last + 0.5, LEFT, RIGHT),
        linear([max(median.ms, *(median.ci or [median.ms])) for median in everything], BOTTOM, TOP),
        x_label="turn",
        y_label="TTFT p50, ms",
        x_ticks=[(turn, str(turn)) for turn in range(1, last + 1, -(-last // 12))],
    )
    rows = []
    for engine, mine in engines.items():
        css, name = draw.css[engine], draw.names[engine]
        plot.line([(median.turn, median.ms) for median in mine], css, name)
        for median in mine:
            if median.ci:
                low, high = median.ci
                plot.whisker(median.turn, low, high, css)
            plot.point(median.turn, median.ms, css, f"{name}, turn {median.turn}: {figure(median.ms)} ms", name)
            interval = f"{figure(median.ci[0])} to {figure(median.ci[1])}" if median.ci else ""
            rows.append([name, str(median.turn), figure(median.ms), interval, f"{median.n:,}"])
    title = f"TTFT by turn, {one_line(cell)}"
    ends = "; ".join(f"{draw.names[e]} {figure(m[0].ms)} to {figure(m[-1].ms)} ms" for e, m in engines.items())
    svg = draw.picture(title, f"Median time to first token from the first turn to the last: {ends}.", [plot])
    return Chart(title, svg, ["engine", "turn", "TTFT p50 ms", "95% interval", "n"], rows, draw.legend(list(engines)))


def reuse(draw: Draw) -> list[Chart]:
    """One chart per cell with reusable prefixes: TTFT of each request over its reusable tokens."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in draw.view.rows("requests"):
        tokens, ttft = row.get("reusable_tokens"), row.get("ttft_ms")
        if tokens is not None and ttft is not None and row["phase"] != "warmup" and row["engine"] in draw.css:
            found.setdefault(row["cell"], {}).setdefault(row["engine"], []).append((float(tokens), float(ttft)))
    reused = {cell: by for cell, by in found.items() if any(x for points in by.values() for x, _ in points)}
    return [_reuse(draw, cell, by) for cell, by in reused.items()]


def _reuse(draw: Draw, cell: str, by_engine: dict[str, list[tuple[float, float]]]) -> Chart:
    everything = [point for points in by_engine.values() for point in points]
    plot = Plot(
        linear([x for x, _ in everything], LEFT, RIGHT), linear([y for _, y in everything], BOTTOM, TOP),
        x_label="reusable tokens", y_label="TTFT, ms",
    )  # fmt: skip
    rows = []
    for engine, points in by_engine.items():
        for x, y in points[:: -(-len(points) // MOST_DOTS)]:
            told = f"{draw.names[engine]}: {x:,.0f} tokens, {figure(y)} ms"
            plot.point(x, y, draw.css[engine], told, draw.names[engine])
        for low, high in _quarters(points):
            inside = sorted(y for x, y in points if low <= x <= high)
            span = f"{low:,.0f} to {high:,.0f}"
            rows.append([draw.names[engine], span, f"{len(inside):,}", figure(inside[len(inside) // 2])])
    title = f"TTFT over reusable tokens, {one_line(cell)}"
    told = "Time to first token of each request over the tokens of its prompt that were sent before."
    legend = draw.legend(list(by_engine))
    return Chart(
        title, draw.picture(title, told, [plot]), ["engine", "reusable tokens", "n", "median TTFT ms"], rows, legend
    )


def _quarters(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Up to four spans of reusable tokens with about as many requests each."""
    xs = sorted(x for x, _ in points)
    parts = [xs[i * len(xs) // 4 : (i + 1) * len(xs) // 4] for i in range(4)]
    return list(dict.fromkeys((part[0], part[-1]) for part in parts if part))
