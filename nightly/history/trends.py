"""Computes trends: a figure over many nights, the breaks of its series, and the nights at which its level changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from nightly.history.change_points import change_points
from nightly.history.series import Point, Series, series_of
from nightly.history.store import History
from records import JsonObject
from reporting.escape import one_line
from reporting.format import figure, metric_name
from scoring.metrics import higher_is_better

RECENT_NIGHTS = 14
"""A night's report shows changes of level within this many last nights."""

CHART_WIDTH = 41
LEAST_SPAN = 0.08
"""The scale of a chart spans at least this share of the level, so that noise does not look like a change."""

MARKS = {"regression": "x", "suspected": "x", "missing": "x", "unconfirmed": "?", "improved": "+"}


@dataclass(frozen=True, slots=True)
class Shift:
    """A change of level. `speed_ratio` is after against before; above 1 is faster."""

    index: int
    run_id: str
    before: float
    after: float
    speed_ratio: float | None


@dataclass(frozen=True, slots=True)
class Trend:
    """A series and its changes of level, which are searched only between breaks."""

    series: Series
    shifts: tuple[Shift, ...]


def trend(series: Series, *, alpha: float = 0.01, least: float = 0.01) -> Trend:
    """Find the changes of level of each unbroken stretch.

    Args:
        series: the figure over the nights.
        alpha: largest p-value of a change point (see `change_points`).
        least: smaller changes (as a share) are not reported, however certain they are.
    """
    shifts = []
    for start, end in series.unbroken():
        measured = [(i, v) for i in range(start, end) if (v := series.points[i].value) is not None]
        if not measured:
            continue
        values = [value for _, value in measured]
        # On the logarithm a change of 5% weighs the same at any level.
        scaled = [math.log(value) for value in values] if min(values) > 0 else values
        edges = [0, *change_points(scaled, alpha=alpha), len(values)]
        for before, at, after in zip(edges, edges[1:], edges[2:], strict=False):
            shift = _shift(series, measured[at][0], values[before:at], values[at:after])
            if shift.speed_ratio is None or abs(math.log(shift.speed_ratio)) >= math.log1p(least):
                shifts.append(shift)
    return Trend(series, tuple(shifts))


def _shift(series: Series, index: int, earlier: list[float], later: list[float]) -> Shift:
    before, after = median(earlier), median(later)
    ratio = None
    if before > 0 and after > 0:
        ratio = after / before if higher_is_better(series.metric) else before / after
    return Shift(index, series.points[index].run_id, before, after, ratio)


def trends(
    history: History,
    metric: str | None = None,
    *,
    profile: str | None = None,
    engine: str | None = None,
    cell: str | None = None,
) -> list[Trend]:
    """The trends of a metric (or of all), for every engine and cell that has it."""
    return [trend(series) for series in series_of(history, metric, profile=profile, engine=engine, cell=cell)]


def recent_shifts(history: History, profile: str, metrics: Sequence[str]) -> list[str]:
    """Changes of level in the last nights, as texts."""
    notes = []
    for metric in metrics:
        for each in trends(history, metric, profile=profile):
            series, newest = each.series, len(each.series.points) - RECENT_NIGHTS
            notes += [
                f"{series.engine}, {series.cell}, {metric}: since {shift.run_id}, {describe(shift, series.unit)}"
                for shift in each.shifts
                if shift.index >= newest
            ]
    return notes


def lines(each: Trend) -> list[str]:
    """A trend for a terminal: one line per night with its place on a scale; lines for breaks, builds, changes."""
    series = each.series
    unit = f" ({series.unit})" if series.unit else ""
    text = [_plain(f"{series.profile}: {series.engine}, {series.cell}, {metric_name(series.metric)}{unit}")]
    shifts = {shift.index: shift for shift in each.shifts}
    low, high = scale([point.value for point in series.points if point.value is not None])
    text.append(f"  {'':20}  {series.unit or '':>9}  {figure(low)} {'':{max(1, CHART_WIDTH - 14)}} {figure(high)}")
    for index, point in enumerate(series.points):
        before = series.points[index - 1] if index else None
        if point.broken_by:
            text.append(_plain(f"  ==== series broken: {'; '.join(point.broken_by)}"))
        if before is not None and point.build != before.build:
            text.append(_plain(f"  ---- build {before.build or 'unknown'} -> {point.build or 'unknown'}"))
        if (shift := shifts.get(index)) is not None:
            text.append(f"  **** level changed: {describe(shift, series.unit)}")
        when, who = _plain(point.created_utc), _plain(point.run_id)
        text.append(f"  {when:20}  {figure(point.value):>9}  {_bar(point, low, high)}  {who}{_said(point)}")
    return text


def scale(values: Sequence[float]) -> tuple[float, float]:
    """(low, high) of a chart: the values with a margin, at least LEAST_SPAN of their level wide."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    least = LEAST_SPAN * abs(median(values)) or 1.0
    margin = max((high - low) * 0.05, (least - (high - low)) / 2)
    return low - margin, high + margin


def _bar(point: Point, low: float, high: float) -> str:
    row = [" "] * CHART_WIDTH
    if point.value is not None:
        place = round((CHART_WIDTH - 1) * (point.value - low) / (high - low))
        row[place] = MARKS.get(point.verdict or "", "o")
    return f"|{''.join(row)}|"


def _said(point: Point) -> str:
    words = [point.verdict.upper() if point.verdict in ("regression", "missing", "suspected") else point.verdict]
    if point.verdict not in MARKS:
        words = []
    if point.gate is not None and point.gate.since:
        words.append(f"since {_plain(point.gate.since)}")
    if point.pinned:
        words.append("pinned")
    return "".join(f"  {word}" for word in words if word)


def describe(shift: Shift, unit: str | None = None) -> str:
    """A change of level as text."""
    levels = f"{figure(shift.before)} -> {figure(shift.after)}{f' {unit}' if unit else ''}"
    if shift.speed_ratio is None:
        return levels
    word = "faster" if shift.speed_ratio > 1 else "slower"
    return f"{levels}, {100 * abs(1 - shift.speed_ratio):.1f}% {word}"


def _plain(text: str) -> str:
    return one_line(text, None)


def to_json(each: Trend) -> JsonObject:
    """A trend for scripts: points with their breaks and verdicts, and the changes of level."""
    series = each.series
    return {
        "profile": series.profile,
        "engine": series.engine,
        "cell": series.cell,
        "metric": series.metric,
        "unit": series.unit,
        "points": [
            {
                "run_id": p.run_id,
                "created": p.created_utc,
                "value": p.value,
                "build": p.build,
                "broken_by": list(p.broken_by),
                "verdict": p.verdict,
                "since": p.gate.since if p.gate else None,
            }
            for p in series.points
        ],
        "shifts": [
            {"run_id": s.run_id, "index": s.index, "before": s.before, "after": s.after, "speed_ratio": s.speed_ratio}
            for s in each.shifts
        ],
    }
