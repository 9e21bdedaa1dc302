"""Audit check that compares an engine's cells with each other: a smaller load must not be slower per token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import geometric_mean

from records import JsonObject
from scoring.audit.model import Status
from scoring.speed.latency import CellFigures

CHECK = "no slower than with more users"
TOLERANCE = 0.05
"""Warns where a token takes this much longer than with more users, and the rounds of the two cells do not overlap."""
FIGURE = "tpot_ms_p50"


def neighbour_rows(engine: str, cells: Mapping[str, tuple[str, Sequence[CellFigures]]]) -> list[JsonObject]:
    """A row for each cell with a fixed number of users and a larger one on the same workload.

    Args:
        engine: the engine.
        cells: cell -> (workload, figures of its rounds).
    """
    by_workload: dict[str, list[tuple[int, str, list[float]]]] = {}
    for cell, (workload, rounds) in cells.items():
        users = {figures.steady.asked for figures in rounds if not figures.steps}
        known = [value for figures in rounds if (value := figures.values.get(FIGURE))]
        if len(users) == 1 and (asked := users.pop()) and known:
            by_workload.setdefault(workload, []).append((asked, cell, known))
    rows = []
    for loads in by_workload.values():
        ordered = sorted(loads)
        for (fewer, cell, mine), (more, _, larger) in pairwise(ordered):
            if fewer < more:
                rows.append(_row(engine, cell, (fewer, mine), (more, larger)))
    return rows


def _row(engine: str, cell: str, small: tuple[int, list[float]], large: tuple[int, list[float]]) -> JsonObject:
    (fewer, mine), (more, larger) = small, large
    ours, base = geometric_mean(mine), geometric_mean(larger)
    slower = ours > base * (1 + TOLERANCE) and min(mine) > max(larger)
    evidence = f"{ours:.2f} ms per token with {fewer} in flight, {base:.2f} ms with {more}"
    status = Status.WARN if slower else Status.PASS
    why = ": find out what slows the smaller load down before you publish either figure" if slower else ""
    return {"check": CHECK, "engine": engine, "cell": cell, "status": status.value, "evidence": evidence + why}
