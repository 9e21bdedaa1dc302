"""Draws the results: throughput against concurrency, the candidate's ratio by round, accuracy by workload."""

from __future__ import annotations

from records import JsonObject
from reporting.charts.chart import BOTTOM, LEFT, RIGHT, TOP, Chart, Draw
from reporting.charts.scale import Scale, fitting, linear
from reporting.charts.svg import Plot
from reporting.escape import one_line
from reporting.format import UNKNOWN, figure, interval, quantity, ratio, share, shown_interval
from reporting.view import cell_of, rounds_of

DEPTH_METRICS = {"prefill_tok_s": ("Prefill speed", "tok/s"), "tpot_ms_p50": ("TPOT p50", "ms")}
"""What is drawn over depth: name and unit by metric."""


def scaling(draw: Draw) -> list[Chart]:
    """Throughput against concurrency, one chart per workload that ran at two concurrencies or more."""
    by_workload: dict[str, list[tuple[int, JsonObject]]] = {}
    for row in draw.view.rows("performance"):
        number = row.get("concurrency")
        if row["metric"] == "output_tok_s" and number is not None:
            by_workload.setdefault(row["workload"], []).append((number, row["engines"]))
    return [
        _scaling(draw, workload, sorted(levels, key=lambda level: level[0]))
        for workload, levels in by_workload.items()
        if len({number for number, _ in levels}) > 1
    ]


def _scaling(draw: Draw, workload: str, levels: list[tuple[int, JsonObject]]) -> Chart:
    return over_numbers(
        draw,
        f"Output throughput, {one_line(workload)}",
        "Output tokens per second by requests in flight; figures in the table below.",
        levels,
        x=("in flight", "requests in flight"),
        unit="tok/s",
    )


def depth(draw: Draw) -> list[Chart]:
    """Prefill speed and TPOT over the length of the prompt, where a scenario asks synthetic prompts of two lengths.

    The length is the one that was planned (`input_tokens` in the provenance of the workload).
    """
    workloads = draw.view.provenance.get("workloads") or {}
    planned = {name: (told or {}).get("input_tokens") for name, told in workloads.items()}
    lengths: dict[str, int] = {name: tokens for name, tokens in planned.items() if isinstance(tokens, int)}
    by_scenario: dict[tuple[str, str], list[tuple[int, JsonObject]]] = {}
    for row in draw.view.rows("performance"):
        if row["metric"] in DEPTH_METRICS and row["workload"] in lengths:
            place = (row["scenario"], row["metric"])
            by_scenario.setdefault(place, []).append((lengths[row["workload"]], row["engines"]))
    return [
        over_numbers(
            draw,
            f"{DEPTH_METRICS[metric][0]} over depth, {one_line(scenario)}",
            f"{DEPTH_METRICS[metric][0]} by the tokens of the prompt; figures in the table below.",
            sorted(levels, key=lambda level: level[0]),
            x=("prompt tokens", "tokens of the prompt"),
            unit=DEPTH_METRICS[metric][1],
            every_tick=False,
        )
        for (scenario, metric), levels in by_scenario.items()
        if len({number for number, _ in levels}) > 1
    ]


def over_numbers(
    draw: Draw,
    title: str,
    description: str,
    levels: list[tuple[int, JsonObject]],
    *,
    x: tuple[str, str],
    unit: str,
    every_tick: bool = True,
) -> Chart:
    """A figure of each engine with its interval against a number.

    Args:
        draw: what the chart is made with.
        title: its title.
        description: its description for readers who do not see it.
        levels: (number, engines of a performance row), sorted by number.
        x: the number's name in the table's head, and at the axis.
        unit: the figure's unit.
        every_tick: whether each number has a tick of its own.
    """
    numbers = [number for number, _ in levels]
    known = [e for _, engines in levels for e in engines.values() if e.get("value")]
    # An interval from two noisy rounds may be a hundred times its figure; it must not determine the scale.
    most = 1.6 * max((e["value"] for e in known), default=1.0)
    tops = [min(most, max(e["value"], *(e.get("ci") or [0]))) for e in known]
    plot = Plot(
        linear(numbers, LEFT, RIGHT), linear(tops, BOTTOM, TOP), x_label=x[1], y_label=unit,
        x_ticks=[(number, str(number)) for number in numbers] if every_tick else None,
    )  # fmt: skip
    rows, legend = [], []
    for engine in draw.view.engines:
        points = [(number, engines[engine]) for number, engines in levels if (engines.get(engine) or {}).get("value")]
        if not points:
            continue
        legend.append(engine)
        css, name = draw.css[engine], draw.names[engine]
        plot.line([(number, e["value"]) for number, e in points], css, name)
        for number, e in points:
            if e.get("ci"):
                plot.whisker(number, e["ci"][0], e["ci"][1], css)
            plot.point(number, e["value"], css, f"{name}, {number} {x[0]}: {quantity(e['value'], unit)}", name)
            low, high = (figure(e["ci"][0]), figure(e["ci"][1])) if e.get("ci") else (UNKNOWN, UNKNOWN)
            rows.append([name, str(number), figure(e["value"]), low, high])
    return Chart(
        title,
        draw.picture(title, description, [plot]),
        ["engine", x[0], unit, "low", "high"],
        rows,
        draw.legend(legend),
    )


def ratio_trend(draw: Draw) -> list[Chart]:
    """Throughput ratio of each round, one chart per cell; it shows drift from round to round."""
    charts = []
    for row in draw.view.rows("performance"):
        if row["metric"] != "output_tok_s":
            continue
        before = rounds_of(row["engines"].get(draw.view.baseline) or {})
        curves = {}
        for candidate in draw.view.candidates:
            now = rounds_of(row["engines"].get(candidate) or {})
            shared = [k for k in sorted(before) if before[k] and now.get(k)]
            curve = [(float(k), float(now[k]) / float(before[k])) for k in shared]  # type: ignore[arg-type]
            if len(curve) > 1:
                curves[candidate] = curve
        if curves:
            charts.append(_ratio(draw, row, curves))
    return charts


def _ratio(draw: Draw, row: JsonObject, curves: dict[str, list[tuple[float, float]]]) -> Chart:
    ratios = {candidate: (row.get("speed_ratio") or {}).get(candidate) or {} for candidate in curves}
    values = [y for curve in curves.values() for _, y in curve]
    ends = [end for t in ratios.values() for end in shown_interval(t) or []]
    rounds = sorted({int(x) for curve in curves.values() for x, _ in curve})
    low, high = min(*values, 1.0) / 1.5, max(*values, 1.0) * 1.5
    scale = fitting([*values, *(min(max(end, low), high) for end in ends), 1.0], BOTTOM, TOP)
    plot = Plot(
        Scale(rounds[0] - 0.4, rounds[-1] + 0.4, LEFT, RIGHT), scale, x_label="round", y_label="speed ratio",
        x_ticks=[(k, str(k)) for k in rounds],
    )  # fmt: skip
    rows = []
    if len(curves) == 1 and (ci := shown_interval(next(iter(ratios.values())))):
        plot.band_y(*ci)
    plot.rule_y(1.0)
    for candidate, curve in curves.items():
        css, name = draw.css[candidate], draw.names[candidate]
        plot.line(curve, css, name)
        for x, y in curve:
            plot.point(x, y, css, f"{name}, round {x:.0f}: {ratio(y)}", name)
            rows.append([name, f"{x:.0f}", f"{y:.3f}"])
        rows.append(
            [name, "all", f"{ratio(ratios[candidate].get('value'))} {interval(shown_interval(ratios[candidate]))}"]
        )
    title = f"Throughput ratio, {one_line(cell_of(row))}"
    return Chart(
        title,
        draw.picture(title, "Throughput of the candidate over the baseline's, by round; 1 is equal.", [plot]),
        ["candidate", "round", "ratio"],
        rows,
        draw.legend(list(curves)),
    )


def accuracy(draw: Draw) -> list[Chart]:
    """Right answers of each graded cell and engine, with their intervals."""
    measured = [
        (row, engine, row["engines"][engine])
        for row in draw.view.rows("quality")
        for engine in draw.view.engines
        if (row["engines"].get(engine) or {}).get("accuracy") is not None
    ]
    if not measured:
        return []
    height = 40 + 22 * len(measured) + 40
    left = 24 + 6.5 * max(len(one_line(row["workload"], 20)) for row, _, _ in measured)
    plot = Plot(
        Scale(0, 1, left, RIGHT), Scale(len(measured) - 0.5, -0.5, height - 40, 20), grid=False,
        x_ticks=[(v / 100, f"{v}%") for v in (0, 25, 50, 75, 100)],
        y_ticks=[
            (i, one_line(row["workload"], 20)) for i, (row, e, _) in enumerate(measured) if e == draw.view.engines[0]
        ],
    )  # fmt: skip
    for x in (0.25, 0.5, 0.75, 1.0):
        plot.rule_x(x, "grid")
    rows = []
    for i, (row, engine, e) in enumerate(measured):
        css, name, ci = draw.css[engine], draw.names[engine], e.get("ci")
        if ci:
            plot.bar_h(i, ci[0], ci[1], css)
        plot.point(e["accuracy"], i, css, f"{name}, {one_line(row['workload'])}: {share(e['accuracy'])}", name)
        ends = [share(end) for end in ci] if ci else [UNKNOWN, UNKNOWN]
        rows.append([one_line(row["workload"]), name, f"{e['correct']}/{e['n']}", share(e["accuracy"]), *ends])
    title = "Accuracy by workload"
    svg = draw.picture(title, "Share of right answers of each engine; figures in the table below.", [plot], height)
    legend = draw.legend([e for e in draw.view.engines if any(e == engine for _, engine, _ in measured)])
    return [Chart(title, svg, ["workload", "engine", "right", "accuracy", "low", "high"], rows, legend)]
