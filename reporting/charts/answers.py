"""Accuracy of each engine and workload with its Wilson interval."""

from __future__ import annotations

from reporting.charts.chart import RIGHT, Chart, Draw
from reporting.charts.scale import Scale
from reporting.charts.svg import Plot
from reporting.escape import one_line
from reporting.format import UNKNOWN, share


def accuracy(draw: Draw) -> list[Chart]:
    """Right answers of each graded cell and engine, with their intervals."""
    told = [
        (row, engine, row["engines"][engine])
        for row in draw.view.rows("quality")
        for engine in draw.view.engines
        if (row["engines"].get(engine) or {}).get("accuracy") is not None
    ]
    if not told:
        return []
    height = 40 + 22 * len(told) + 40
    left = 24 + 6.5 * max(len(one_line(row["workload"], 20)) for row, _, _ in told)
    plot = Plot(
        Scale(0, 1, left, RIGHT), Scale(len(told) - 0.5, -0.5, height - 40, 20), grid=False,
        x_ticks=[(v / 100, f"{v}%") for v in (0, 25, 50, 75, 100)],
        y_ticks=[
            (i, one_line(row["workload"], 20)) for i, (row, e, _) in enumerate(told) if e == draw.view.engines[0]
        ],
    )  # fmt: skip
    for x in (0.25, 0.5, 0.75, 1.0):
        plot.rule_x(x, "grid")
    rows = []
    for i, (row, engine, e) in enumerate(told):
        css, name, ci = draw.css[engine], draw.names[engine], e.get("ci")
        if ci:
            plot.bar_h(i, ci[0], ci[1], css)
        plot.point(e["accuracy"], i, css, f"{name}, {one_line(row['workload'])}: {share(e['accuracy'])}", name)
        ends = [share(end) for end in ci] if ci else [UNKNOWN, UNKNOWN]
        rows.append([one_line(row["workload"]), name, f"{e['correct']}/{e['n']}", share(e["accuracy"]), *ends])
    title = "Accuracy by workload"
    svg = draw.picture(title, "Share of right answers of each engine; figures in the table below.", [plot], height)
    legend = draw.legend([e for e in draw.view.engines if any(e == engine for _, engine, _ in told)])
    return [Chart(title, svg, ["workload", "engine", "right", "accuracy", "low", "high"], rows, legend)]
