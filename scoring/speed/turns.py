"""Figures of the turns of conversations: the first turn has all to compute, a late one finds most of it in a cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from records import JsonObject
from scoring.metrics import TURNS
from scoring.speed.latency import CellFigures, summarise
from scoring.speed.rows import Rounds, performance_rows

LATENCIES = ("ttft_ms", "tpot_ms")
METRICS = tuple(f"{name}_p50" for name in LATENCIES)
"""What is told of every turn."""


def add_turn_figures(figures: CellFigures) -> None:
    """Put the TTFT of the turns of `scoring.metrics.TURNS` among the figures of a cell of conversations."""
    measured = figures.measured
    if not measured["turn"].notna().any():
        return
    for name, turn in TURNS.items():
        chosen = measured["turn"].eq(measured["turns"] if turn is None else turn)
        values = measured.loc[chosen, "ttft_ms"].dropna().to_numpy(float)
        if len(values):
            figures.samples[name] = values
            summarise(figures, name, values, len(values))


def turn_rows(
    cell: str, scenario: str, workload: str, engines: Mapping[str, Rounds], baseline: str
) -> list[JsonObject]:
    """Performance rows of each turn, with `turn`; empty for single questions."""
    rows: list[JsonObject] = []
    for turn in sorted({turn for rounds in engines.values() for _, f in rounds for turn in _turns(f)}):
        sides = {
            engine: [(number, _of_turn(figures, turn)) for number, figures in rounds if turn in _turns(figures)]
            for engine, rounds in engines.items()
        }
        sides = {engine: rounds for engine, rounds in sides.items() if rounds}
        found = performance_rows(cell, scenario, workload, sides, baseline, metrics=METRICS)
        rows += [row | {"turn": turn} for row in found]
    return rows


def _turns(figures: CellFigures) -> set[int]:
    return {int(turn) for turn in figures.good["turn"].dropna().unique()}


def _of_turn(figures: CellFigures, turn: int) -> CellFigures:
    """Latencies of one turn; its rates are no figures of their own."""
    measured: pd.DataFrame = figures.measured[figures.measured["turn"].eq(turn)]
    part = replace(
        figures, measured=measured, good=measured[measured["ok"]], values={}, counts={}, samples={}, steps={}
    )
    for name in LATENCIES:
        values = measured[name].dropna().to_numpy(float)
        part.samples[name] = values
        summarise(part, name, values, len(values))
    return part


def conversation_rows(cell: str, engine: str, rounds: Rounds) -> list[JsonObject]:
    """How the conversations of each round ended: {cell, engine, round, conversations, complete, failed, turns}.

    A failed turn ends its conversation; what is neither complete nor failed was cut by the end of the test.
    """
    rows = []
    for number, figures in rounds:
        held = figures.measured[figures.measured["conversation"].notna()]
        if held.empty:
            continue
        last = held.sort_values(["turn", "attempt"]).groupby("conversation").tail(1)
        failed = int(last["failed"].sum())
        complete = int((last["turn"].eq(last["turns"]) & ~last["failed"]).sum())
        rows.append(
            {
                "cell": cell,
                "engine": engine,
                "round": number,
                "conversations": len(last),
                "complete": complete,
                "failed": failed,
                "turns": len(held.drop_duplicates(["conversation", "turn"])),
            }
        )
    return rows
