"""Trends: a figure over many nights, with the breaks of its series and the nights at which its level changed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nightly.history.change_points import change_points
from nightly.history.series import Point, Series, breaks_between, series_of
from nightly.history.store import History
from nightly.history.terminal_text import figure, printable
from records import JsonObject
from scoring.metrics import higher_is_better

__all__ = [
    "Point",
    "Series",
    "Shift",
    "Trend",
    "breaks_between",
    "lines",
    "series_of",
    "to_json",
    "trend",
    "trends",
]


@dataclass(frozen=True, slots=True)
class Shift:
    """A change of level. `speed_ratio` is after against before, above 1 where it got better."""

    index: int
    run_id: str
    before: float
    after: float
    speed_ratio: float | None


@dataclass(frozen=True, slots=True)
class Trend:
    """A series and the changes of its level; none is looked for across a break."""

    series: Series
    shifts: tuple[Shift, ...]


def trend(series: Series, *, alpha: float = 0.01, least: float = 0.01) -> Trend:
    """Find the changes of level of each unbroken stretch.

    Args:
        series: the figure over the nights.
        alpha: largest p-value of a change point (see `_history_change_points`).
        least: changes smaller than this share are not reported, however certain.
    """
    shifts = []
    for start, end in series.unbroken():
        values = [point.value for point in series.points[start:end]]
        # On the logarithm a change of 5% weighs the same at any level.
        scaled = [math.log(value) for value in values] if min(values) > 0 else values
        found = [start + index for index in change_points(scaled, alpha=alpha)]
        edges = [start, *found, end]
        for before, index, after in zip(edges, found, edges[2:], strict=False):
            shift = _shift(series, before, index, after)
            if shift.speed_ratio is None or abs(math.log(shift.speed_ratio)) >= math.log1p(least):
                shifts.append(shift)
    return Trend(series, tuple(shifts))


def _shift(series: Series, start: int, index: int, end: int) -> Shift:
    before = _median([point.value for point in series.points[start:index]])
    after = _median([point.value for point in series.points[index:end]])
    ratio = None
    if before > 0 and after > 0:
        ratio = after / before if higher_is_better(series.metric) else before / after
    return Shift(index, series.points[index].run_id, before, after, ratio)


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def trends(
    history: History, metric: str, *, profile: str | None = None, engine: str | None = None, cell: str | None = None
) -> list[Trend]:
    """The trends of a metric, for every engine and cell that has it."""
    return [trend(series) for series in series_of(history, metric, profile=profile, engine=engine, cell=cell)]


def lines(found: Trend) -> list[str]:
    """A trend for a terminal: a line a night; breaks, new builds and changes of level between the nights."""
    series = found.series
    unit = f" ({series.unit})" if series.unit else ""
    text = [printable(f"{series.profile}: {series.engine}, {series.cell}, {series.metric}{unit}")]
    shifts = {shift.index: shift for shift in found.shifts}
    largest = max((point.value for point in series.points), default=0.0)
    for index, point in enumerate(series.points):
        before = series.points[index - 1] if index else None
        if point.broken_by:
            text.append(printable(f"  ==== series broken: {'; '.join(point.broken_by)}"))
        if before is not None and point.build != before.build:
            text.append(printable(f"  ---- build {before.build or 'unknown'} -> {point.build or 'unknown'}"))
        if (shift := shifts.get(index)) is not None:
            text.append(f"  **** {_in_words(shift)}")
        bar = "#" * round(30 * point.value / largest) if largest > 0 else ""
        when, who = printable(point.created_utc), printable(point.run_id)
        text.append(f"  {when:20}  {figure(point.value):>9}  {bar:30}  {who}")
    return text


def _in_words(shift: Shift) -> str:
    if shift.speed_ratio is None:
        return f"level changed: {figure(shift.before)} -> {figure(shift.after)}"
    word = "better" if shift.speed_ratio > 1 else "worse"
    return (
        f"level changed: {figure(shift.before)} -> {figure(shift.after)}, speed ratio {shift.speed_ratio:.3f} ({word})"
    )


def to_json(found: Trend) -> JsonObject:
    """A trend for scripts: points with their breaks, and the changes of level."""
    series = found.series
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
            }
            for p in series.points
        ],
        "shifts": [
            {"run_id": s.run_id, "index": s.index, "before": s.before, "after": s.after, "speed_ratio": s.speed_ratio}
            for s in found.shifts
        ],
    }
