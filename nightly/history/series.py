"""Which runs belong to one series: why two runs may not be compared, and a figure over the nights with its breaks."""

from __future__ import annotations

from dataclasses import dataclass

from nightly.history.store import WHOLE_RUN, FigureRow, History, RunInfo
from scoring.comparability import engine_changes, host_changes


def breaks_between(history: History, before: RunInfo, after: RunInfo, engine: str, cell: str | None) -> list[str]:
    """Why the figures of two runs must not be compared, in words; empty where they may be.

    A change of driver, kernel, clocks, GPU or CPU; of an engine's weights, slots or context; of what a cell asks. A new
    build, binary or argument of the engine is no break: it is what is being compared.
    """
    found = host_changes(before.fingerprint, after.fingerprint)
    left, right = (history.engines(run.run_id).get(engine) for run in (before, after))
    if left and right:
        found += engine_changes(left.setup, right.setup)
    if cell is not None:
        was, now = (history.loads(run.run_id).get(cell) for run in (before, after))
        if was is None or now is None:
            # From before version 2: only the whole profile's hash tells whether the same was asked.
            if before.profile_sha256 != after.profile_sha256:
                found.append("profile changed")
        elif was != now:
            found.append(f"load of {cell} changed (prompts, sampling, lengths or counts)")
    return found


@dataclass(frozen=True, slots=True)
class Point:
    """One night of one figure. `broken_by` says why it can't be compared with the point before."""

    run_id: str
    created_utc: str
    value: float
    build: str | None
    broken_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """One figure of one engine and cell over the complete runs of a profile, oldest first."""

    profile: str
    engine: str
    cell: str
    metric: str
    unit: str | None
    points: tuple[Point, ...]

    def unbroken(self) -> list[tuple[int, int]]:
        """The (start, end) of each stretch without a break."""
        starts = [0] + [i for i, point in enumerate(self.points) if i and point.broken_by]
        return list(zip(starts, [*starts[1:], len(self.points)], strict=True))


def series_of(
    history: History, metric: str, *, profile: str | None = None, engine: str | None = None, cell: str | None = None
) -> list[Series]:
    """Every series of a metric, by profile, engine and cell. Void, partial and confirming runs are no part of one."""
    runs = history.runs(profile=profile, where="status = 'complete' AND kind != 'confirmation'")
    grouped: dict[tuple[str, str, str], list[tuple[RunInfo, FigureRow]]] = {}
    for run in runs:
        for figure in history.figures(run.run_id):
            wanted = figure.metric == metric and figure.round == WHOLE_RUN
            if wanted and engine in (None, figure.engine) and cell in (None, figure.cell):
                grouped.setdefault((run.profile, figure.engine, figure.cell), []).append((run, figure))
    found = []
    for (of_profile, of_engine, of_cell), rows in sorted(grouped.items()):
        points: list[Point] = []
        for place, (run, figure) in enumerate(rows):
            build = history.engines(run.run_id)[of_engine].build
            broken = breaks_between(history, rows[place - 1][0], run, of_engine, of_cell) if place else []
            points.append(Point(run.run_id, run.created_utc, figure.value, build, tuple(broken)))
        found.append(Series(of_profile, of_engine, of_cell, metric, rows[-1][1].unit, tuple(points)))
    return found
