"""The result of a capacity search, as the load process wrote it, and its place among the figures of a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from records import JsonObject
from scoring.captures import Capture
from scoring.speed.latency import CellFigures, MeasuredRound


def add_capacity(figures: CellFigures, capture: Capture) -> None:
    """Put the capacity among the figures of a cell that searched one.

    Its value is the highest level that passes. It is null where the bracket is open: everything passed (the capacity is
    at least the end), nothing did, or the search was stopped.
    """
    found = capture.scenario.get("capacity")
    figures.searched = capture.asked.get("shape") == "capacity"
    if not isinstance(found, dict):
        return
    passes, fails = found.get("passes"), found.get("fails")
    name = "capacity_requests_s" if found.get("by") == "rate" else "capacity_users"
    figures.values[name] = None
    if found.get("complete") and passes is not None and fails is not None:
        figures.bracket = float(passes), float(fails)
        figures.values[name] = float(passes)
    figures.counts[name] = int(found.get("requests") or 0)


def capacity_rows(cell: str, workload: str, engines: Mapping[str, Sequence[MeasuredRound]]) -> list[JsonObject]:
    """One row per engine and round of a cell that searched a capacity, with the result as scenario.json has it."""
    rows = []
    for engine, rounds in engines.items():
        for number, scenario, figures in rounds:
            found = scenario.get("capacity")
            if isinstance(found, dict):
                head = {"cell": cell, "workload": workload, "engine": engine, "round": number}
                rows.append(head | found | {"sent": len(figures.measured)})
    return rows
