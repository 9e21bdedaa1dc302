"""Who was right on which problem: one square a problem and engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from records import JsonObject
from reporting.escape import one_line
from reporting.format import count
from reporting.view import View, cell_of, is_flip


@dataclass(frozen=True)
class FlipGrid:
    """One square a problem and engine: `columns` holds, per problem, its name and whether each engine was right."""

    title: str
    engines: Sequence[str]
    columns: list[tuple[str, list[bool | None]]]
    note: str


def flip_grids(view: View, most: int = 120) -> list[FlipGrid]:
    """A grid per graded cell; with more problems than fit only those that flipped."""
    grids = []
    by_cell: dict[str, list[JsonObject]] = {}
    for row in view.rows("problems"):
        by_cell.setdefault(cell_of(row), []).append(row)
    for cell, rows in by_cell.items():
        flips = [row for row in rows if is_flip(row)]
        chosen = rows if len(rows) <= most else flips[:most]
        note = f"{count(len(flips), 'flip')} in {count(len(rows), 'problem')}"
        if len(chosen) < len(rows):
            note += f"; shown are {count(len(chosen), 'flip')}"
        columns = [
            (one_line(row["prompt_id"], 60), [_right(row["engines"].get(engine)) for engine in view.engines])
            for row in chosen
        ]
        if columns:
            grids.append(FlipGrid(one_line(cell, 80), [one_line(e, 40) for e in view.engines], columns, note))
    return grids


def _right(told: JsonObject | None) -> bool | None:
    return None if told is None else bool(told.get("correct"))
