"""From a comparison to the figures that the history keeps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from reporting._history_rows import WHOLE_RUN, FigureRow, QualityRow


def figures(comparison: Mapping[str, Any]) -> list[FigureRow]:
    """All figures of a comparison, over all rounds and by round."""
    rows: list[FigureRow] = []
    for row in comparison.get("performance", []):
        cell = row.get("cell") or f"{row['scenario']}.{row['workload']}"
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
            for number, single in _rounds(told):
                rows.append(FigureRow(engine, cell, row["metric"], number, single, unit=row.get("unit")))
    known = {(row.engine, row.cell, row.metric) for row in rows if row.round != WHOLE_RUN}
    rows += [
        row for row in _from_requests(comparison.get("requests", [])) if (row.engine, row.cell, row.metric) not in known
    ]
    return sorted(rows, key=lambda row: (row.engine, row.cell, row.metric, row.round))


def _rounds(told: Mapping[str, Any]) -> Iterable[tuple[int, float]]:
    """Figures by round where the comparison gives them, as a list or as an object keyed by the round's number."""
    given = told.get("rounds") or {}
    if isinstance(given, list):
        given = {str(number): value for number, value in enumerate(given, start=1)}
    for number, value in given.items():
        single = _number(value.get("value") if isinstance(value, dict) else value)
        if single is not None:
            yield int(str(number).removeprefix("r")), single


_LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")


def _from_requests(requests: Iterable[Mapping[str, Any]]) -> list[FigureRow]:
    """Medians and means by round of the three latencies that the comparison lists for every request."""
    values: dict[tuple[str, str, str, int], list[float]] = defaultdict(list)
    for request in requests:
        if request.get("status") != "ok" or request.get("phase") == "warmup":
            continue
        for metric in _LATENCIES:
            if (value := _number(request.get(metric))) is not None:
                values[request["engine"], request["cell"], metric, int(request["round"])].append(value)
    rows = []
    for (engine, cell, metric, number), group in values.items():
        for suffix, single in (("p50", np.percentile(group, 50)), ("mean", np.mean(group))):
            rows.append(FigureRow(engine, cell, f"{metric}_{suffix}", number, float(single), len(group), unit="ms"))
    return rows


def quality(comparison: Mapping[str, Any]) -> list[QualityRow]:
    """The answers of a comparison."""
    rows = []
    for row in comparison.get("quality", []):
        cell = row.get("cell") or row["workload"]
        problems = [p for p in comparison.get("problems", []) if (p.get("cell") or p["workload"]) == cell]
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
