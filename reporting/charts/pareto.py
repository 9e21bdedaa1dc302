"""Draws speed for one user against speed for all users: a point per engine and level of a sweep or capacity search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from records import JsonObject
from reporting.charts.chart import BOTTOM, LEFT, RIGHT, TOP, Chart, Draw
from reporting.charts.scale import linear
from reporting.charts.svg import Plot
from reporting.escape import one_line
from reporting.format import UNKNOWN, figure, share

PASS_SHARE = 0.95
"""Default share of requests that must meet the objectives in a sweep."""


@dataclass(frozen=True, slots=True)
class Point:
    """One level of one engine."""

    engine: str
    level: float
    per_user: float
    """Tokens/s of one user while text flows: 1000 / TPOT p50."""
    total: float
    """Tokens/s of all users together; of one GPU where the engine ran on several."""
    met: float | None
    """Share of requests that met the objectives; None without objectives."""


def pareto(draw: Draw) -> list[Chart]:
    """One chart for each cell with levels: tokens/s per user to the right, total tokens/s upwards."""
    charts = []
    rows = draw.view.rows("steps")
    for cell in dict.fromkeys(row["cell"] for row in rows):
        of_cell = [row for row in rows if row["cell"] == cell]
        points = _points(draw, of_cell)
        if len(points) > 1:
            charts.append(_chart(draw, cell, of_cell[0]["by"], points))
    return charts


def front(points: Sequence[Point]) -> list[Point]:
    """The points that no other point beats in both speeds (Pareto front), the fastest for one user first."""
    ordered = sorted(points, key=lambda point: (-point.per_user, -point.total))
    best: list[Point] = []
    for point in ordered:
        if not best or point.total > best[-1].total:
            best.append(point)
    return best


def _points(draw: Draw, rows: list[JsonObject]) -> list[Point]:
    values = {
        (row["metric"], row["level"], engine): found["value"]
        for row in rows
        for engine, found in row["engines"].items()
        if found.get("value") is not None
    }
    points = []
    for level in sorted({row["level"] for row in rows}):
        for engine in draw.view.engines:
            tpot, total = (values.get((metric, level, engine)) for metric in ("tpot_ms_p50", "output_tok_s"))
            if not tpot or not total:
                continue
            good, requests = (values.get((metric, level, engine)) for metric in ("goodput_s", "requests_s"))
            met = good / requests if good is not None and requests else None
            points.append(Point(engine, level, 1000 / tpot, total / (_gpus(draw, engine) or 1), met))
    return points


def _gpus(draw: Draw, engine: str) -> int | None:
    known = draw.view.card(engine).get("gpus")
    return known if isinstance(known, int) and known > 0 else None


def _pass_share(draw: Draw, cell: str) -> float:
    found = next((row for row in draw.view.rows("capacity") if row["cell"] == cell), {})
    return float(found.get("pass_share", PASS_SHARE))


def _chart(draw: Draw, cell: str, by: str, points: list[Point]) -> Chart:
    objectives = draw.view.provenance.get("objectives") or {}
    tpot = objectives.get("tpot_ms")
    least = 1000 / tpot if tpot else None
    per_gpu = any(_gpus(draw, point.engine) for point in points)
    plot = Plot(
        linear([*(point.per_user for point in points), *([least] if least else [])], LEFT, RIGHT),
        linear([point.total for point in points], BOTTOM, TOP),
        x_label="tok/s per user",
        y_label="total tok/s per GPU" if per_gpu else "total tok/s",
    )
    best = front(points)
    plot.line([(point.per_user, point.total) for point in best], "front", "Pareto front")
    if least:
        plot.rule_x(least)
    unit = "a second" if by == "rate" else "users"
    needed = _pass_share(draw, cell)
    rows = []
    for engine in dict.fromkeys(point.engine for point in points):
        name, css = draw.names[engine], draw.css[engine]
        mine = [point for point in points if point.engine == engine]
        plot.line([(point.per_user, point.total) for point in mine], css, name)
        for point in mine:
            missed = point.met is not None and point.met < needed
            on_front = point in best
            title = (
                f"{name}, {point.level:g} {unit}: {figure(point.per_user)} tok/s per user, {figure(point.total)} total"
            )
            plot.point(point.per_user, point.total, f"{css} missed" if missed else css, title, name)
            met = UNKNOWN if point.met is None else share(point.met)
            place = "yes" if on_front else ""
            rows.append([name, f"{point.level:g}", figure(point.per_user), figure(point.total), met, place])
    title = f"Speed for one user and for all, {one_line(cell)}"
    limits = ", ".join(f"{key.removesuffix('_ms').upper()} {limit:g} ms" for key, limit in objectives.items() if limit)
    note = "The thick line is the Pareto front: no measured point is faster both for one user and for all."
    if limits:
        line = f" The vertical line is the TPOT objective: {figure(least)} tok/s per user." if least else ""
        note += f"{line} Hollow points: fewer than {100 * needed:g}% of requests met the objectives ({limits})."
    return Chart(
        title,
        draw.picture(
            title, "Output tokens per second of one user, and of all users; figures in the table below.", [plot]
        ),
        ["engine", "users" if by == "users" else "rate", "tok/s per user", "total tok/s", "met", "front"],
        rows,
        draw.legend(list(dict.fromkeys(point.engine for point in points))),
        note,
    )
