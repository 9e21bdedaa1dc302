"""Computes the figures of each level of a sweep or a capacity search, as if the level were a separate load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from records import JsonObject
from scoring.captures import Capture
from scoring.speed.latency import CellFigures, cell_figures
from scoring.speed.rows import Rounds, performance_rows

METRICS = ("output_tok_s", "requests_s", "goodput_s", "ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "e2e_ms_p50")
"""The metrics shown for each level."""


def step_figures(capture: Capture, objectives: Mapping[str, float | None] | None = None) -> dict[float, CellFigures]:
    """Figures of every level that was reached, with a cell's definitions; empty for a load without levels."""
    if capture.asked.get("shape") not in ("sweep", "capacity"):
        return {}
    by_rate = bool(capture.requests["scheduled_ms"].notna().any())
    level_of = _levels(capture)
    figures = {}
    for level in sorted(set(level_of[level_of > 0].tolist())):
        asked = {"shape": "open", "rate": level} if by_rate else {"shape": "closed", "users": int(level)}
        figures[level] = cell_figures(_part(capture, level_of == level, asked), objectives)
    return figures


def step_rows(
    cell: str, scenario: str, workload: str, engines: Mapping[str, Rounds], baseline: str
) -> list[JsonObject]:
    """Performance rows of each level, with `level` and `by` (users or rate); the scenario reads `sweep, 4 users`."""
    rows = []
    for level in sorted({level for rounds in engines.values() for _, figures in rounds for level in figures.steps}):
        reached = {
            engine: [(number, figures.steps[level]) for number, figures in rounds if level in figures.steps]
            for engine, rounds in engines.items()
        }
        reached = {engine: rounds for engine, rounds in reached.items() if rounds}
        first = next(iter(reached.values()))[0][1]
        by = "rate" if first.steady.asked is None else "users"
        label = f"{scenario}, {level:g} {'a second' if by == 'rate' else 'user' if level == 1 else 'users'}"
        level_rows = performance_rows(cell, label, workload, reached, baseline, metrics=METRICS)
        rows += [row | {"level": level, "by": by} for row in level_rows]
    return rows


def _steps(capture: Capture) -> dict[str, list[JsonObject]]:
    """The steps of each worker, on its own clock. A load without workers has one list, used for every name."""
    recorded = {str(w.get("worker")): w.get("steps") or [] for w in capture.scenario.get("workers") or []}
    alone = capture.scenario.get("steps") or []
    workers = {str(worker): recorded.get(str(worker)) or alone for worker in capture.origins}
    return {worker: steps for worker, steps in workers.items() if steps}


def _levels(capture: Capture) -> NDArray[np.float64]:
    """The level at which each request was sent; 0 for requests outside every step."""
    frame = capture.requests
    level_of = np.zeros(len(frame))
    sent = frame["sent_ms"].to_numpy(float)
    for worker, steps in _steps(capture).items():
        mine = (frame["worker"] == worker).to_numpy() & frame["measured"].to_numpy(bool)
        for step in steps:
            if step.get("start_ns") is None:
                continue
            start = (step["start_ns"] - capture.origins[worker]) / 1e6
            end = np.inf if step.get("end_ns") is None else (step["end_ns"] - capture.origins[worker]) / 1e6
            level_of[mine & (sent >= start) & (sent < end)] = step["level"]
    return level_of


def _part(capture: Capture, chosen: NDArray[np.bool_], asked: JsonObject) -> Capture:
    """A capture with only the chosen requests, as if they had been a separate load."""
    chunks = capture.requests["chunks"].to_numpy(np.int64)
    inside = np.repeat(chosen, chunks)
    requests: pd.DataFrame = capture.requests[chosen].reset_index(drop=True)
    return replace(
        capture,
        scenario={**capture.scenario, "asked": {**capture.asked, **asked}},
        requests=requests,
        chunk_ns=capture.chunk_ns[inside],
        chunk_tokens=capture.chunk_tokens[inside],
        offsets=np.concatenate([[0], np.cumsum(chunks[chosen])]).astype(np.int64),
        texts=[],
        reasonings=[],
    )
