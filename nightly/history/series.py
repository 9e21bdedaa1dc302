"""Builds the series of a figure over the nights: which runs belong to it, its breaks, and each night's decision."""

from __future__ import annotations

from dataclasses import dataclass

from nightly.history.store import WHOLE_RUN, FigureRow, GateRow, History, RunInfo
from scoring.comparability import engine_changes, host_changes


def breaks_between(history: History, before: RunInfo, after: RunInfo, engine: str, cell: str | None) -> list[str]:
    """The reasons why the figures of two runs must not be compared, as texts; empty if they may be compared.

    Reasons are changes of driver, kernel, clocks, GPU or CPU; of an engine's weights, slots or context; of a cell's
    load. A new build, binary or argument of the engine is no reason: the comparison is meant to measure it.
    """
    changes = host_changes(before.fingerprint, after.fingerprint)
    left, right = (history.engines(run.run_id).get(engine) for run in (before, after))
    if left and right:
        changes += engine_changes(left.setup, right.setup)
    if cell is not None:
        was, now = (history.loads(run.run_id).get(cell) for run in (before, after))
        if was is None or now is None:
            # A run from before version 2 has only the whole profile's hash.
            if before.profile_sha256 != after.profile_sha256:
                changes.append("profile changed")
        elif was != now:
            changes.append(f"load of {cell} changed (prompts, sampling, lengths or counts)")
    return changes


@dataclass(frozen=True, slots=True)
class Point:
    """One night of one figure. `broken_by` lists why it can't be compared with the point before.

    `value` is None if the night lacks the figure. `gate` is the night's decision on it, or None.
    """

    run_id: str
    created_utc: str
    value: float | None
    build: str | None
    broken_by: tuple[str, ...] = ()
    gate: GateRow | None = None
    pinned: bool = False

    @property
    def verdict(self) -> str | None:
        return None if self.gate is None else self.gate.verdict


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


_Key = tuple[str, str, str, str]
"""(profile, engine, cell, metric)"""


def series_of(
    history: History,
    metric: str | None = None,
    *,
    profile: str | None = None,
    engine: str | None = None,
    cell: str | None = None,
) -> list[Series]:
    """Every series of a metric (or of every metric), by profile, engine and cell.

    Void, partial and confirming runs belong to no series. A night for which the gate reported a missing figure has a
    point without a value.
    """
    runs = history.runs(profile=profile, where="status = 'complete' AND kind != 'confirmation'")
    units: dict[_Key, str | None] = {}
    points: dict[_Key, list[Point]] = {}
    last: dict[_Key, RunInfo] = {}
    for run in runs:
        gates = {(gate.engine, gate.cell, gate.metric): gate for gate in history.gates(run.run_id)}
        engines = history.engines(run.run_id)
        whole = {(f.engine, f.cell, f.metric): f for f in history.figures(run.run_id) if f.round == WHOLE_RUN}
        missing = {key: None for key, gate in gates.items() if gate.verdict == "missing" and key not in whole}
        values: dict[tuple[str, str, str], FigureRow | None] = whole | missing
        for (of_engine, of_cell, of_metric), row in sorted(values.items(), key=lambda item: item[0]):
            if metric not in (None, of_metric) or engine not in (None, of_engine) or cell not in (None, of_cell):
                continue
            key = (run.profile, of_engine, of_cell, of_metric)
            broken = breaks_between(history, last[key], run, of_engine, of_cell) if key in last else []
            build = engines[of_engine].build if of_engine in engines else None
            gate = gates.get((of_engine, of_cell, of_metric))
            value = row.value if row else None
            point = Point(run.run_id, run.created_utc, value, build, tuple(broken), gate, run.pinned_utc is not None)
            points.setdefault(key, []).append(point)
            last[key] = run
            units[key] = row.unit if row else units.get(key)
    return [Series(*key, units[key], tuple(points[key])) for key in sorted(points)]
