"""From a comparison to the figures that the history keeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from nightly.history.rows import WHOLE_RUN, FigureRow, QualityRow


def figures(comparison: Mapping[str, Any]) -> list[FigureRow]:
    """All figures of a comparison, over all rounds and by round."""
    rows: list[FigureRow] = []
    for row in comparison.get("performance", []):
        cell = row["cell"]
        for engine, told in row["engines"].items():
            value = _number(told.get("value"))
            if value is None:
                continue
            low, high = told.get("ci") or (None, None)
            rows.append(
                FigureRow(
                    engine,
                    cell,
                    row["metric"],
                    WHOLE_RUN,
                    value,
                    told.get("n"),
                    _number(low),
                    _number(high),
                    row.get("unit"),
                )
            )
            for number, given in told["rounds"].items():
                if (single := _number(given)) is not None:
                    rows.append(FigureRow(engine, cell, row["metric"], int(number), single, unit=row.get("unit")))
    return sorted(rows, key=lambda row: (row.engine, row.cell, row.metric, row.round))


def quality(comparison: Mapping[str, Any]) -> list[QualityRow]:
    """The answers of a comparison."""
    rows = []
    for row in comparison.get("quality", []):
        cell = row["cell"]
        problems = [p for p in comparison.get("problems", []) if p["cell"] == cell]
        for engine, told in row["engines"].items():
            low, high = told.get("ci") or (None, None)
            goes: dict[str, list[bool]] = defaultdict(list)
            for problem in problems:
                if engine in problem["engines"]:
                    goes[str(problem["prompt_id"])].append(bool(problem["engines"][engine].get("correct")))
            marks = [mark for group in goes.values() for mark in group]
            n = told.get("n", row.get("n"))
            rows.append(
                QualityRow(
                    engine,
                    cell,
                    n,
                    told.get("correct"),
                    _number(told.get("accuracy")),
                    _number(low),
                    _number(high),
                    told.get("truncated"),
                    told.get("no_answer"),
                    told.get("errors"),
                    # Half a list would pair the wrong problems.
                    {prompt: sum(group) / len(group) for prompt, group in goes.items()}
                    if marks and len(marks) == n and sum(marks) == told.get("correct")
                    else None,
                )
            )
    return sorted(rows, key=lambda row: (row.cell, row.engine))


def _number(value: Any) -> float | None:
    """A finite float, else None: SQLite would keep a NaN as NULL, and infinity is no figure."""
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None
