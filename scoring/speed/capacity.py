"""Takes the result of a capacity search from scenario.json into the figures of a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from records import JsonObject
from scoring.captures import Capture
from scoring.speed.latency import CellFigures, MeasuredRound


def add_capacity(figures: CellFigures, capture: Capture) -> None:
    """Add the capacity to the figures of a cell that searched one.

    The value is the highest level that passes. It is null where the bracket is open: every level passed (the capacity
    is at least the end), none passed, or the search was stopped.
    """
    result = capture.scenario.get("capacity")
    figures.searched = capture.asked.get("shape") == "capacity"
    if not isinstance(result, dict):
        return
    passes, fails = result.get("passes"), result.get("fails")
    name = "capacity_requests_s" if result.get("by") == "rate" else "capacity_users"
    figures.values[name] = None
    if result.get("complete") and passes is not None and fails is not None:
        figures.bracket = float(passes), float(fails)
        figures.values[name] = float(passes)
    figures.counts[name] = int(result.get("requests") or 0)


def capacity_rows(cell: str, workload: str, engines: Mapping[str, Sequence[MeasuredRound]]) -> list[JsonObject]:
    """One row per engine and round of a cell that searched a capacity: the result from scenario.json."""
    rows = []
    for engine, rounds in engines.items():
        for number, scenario, figures in rounds:
            result = scenario.get("capacity")
            if isinstance(result, dict):
                head = {"cell": cell, "workload": workload, "engine": engine, "round": number}
                rows.append(head | result | {"sent": len(figures.measured)})
    return rows
