"""Measures the effect of cancelled requests on the others: compares a cell with its twin without cancellation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from records import JsonObject
from scoring.speed.latency import MeasuredRound
from scoring.speed.rows import performance_rows
from scoring.speed.verdicts import judge_speed

METRICS = ("ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "tpot_ms_p99", "itl_ms_p99", "output_tok_s")
_WITHOUT, _WITH = "without", "with"
_SAME_LOAD = ("scenario", "workload", "users", "rate", "max_tokens", "fixed_length")
"""The settings in which a twin must equal the cell with cancelled requests."""


def cancellation_rows(engine: str, cells: Mapping[str, Sequence[MeasuredRound]], margin: float) -> list[JsonObject]:
    """One row per metric of each cell with cancelled requests.

    A row is {engine, cell, share, after_tokens, cancelled, requests, twin, metric, unit, without, with, speed_ratio}.
    `with` and `without` are figures of complete answers (TTFT includes cancelled ones). A ratio above 1 means that the
    others are faster with cancellation. Without a twin in the run, `twin`, `without` and the ratio are null.
    """
    rows: list[JsonObject] = []
    for cell, rounds in cells.items():
        asked = (rounds[0][1].get("asked") or {}) if rounds else {}
        if not asked.get("cancel_share"):
            continue
        twin = next((name for name, other in cells.items() if other and _is_twin(other[0][1], rounds[0][1])), None)
        sides = {_WITH: [(number, figures) for number, _, figures in rounds]}
        if twin:
            sides[_WITHOUT] = [(number, figures) for number, _, figures in cells[twin]]
        head = {
            "engine": engine,
            "cell": cell,
            "share": asked["cancel_share"],
            "after_tokens": asked.get("cancel_after_tokens"),
            "cancelled": sum(int(figures.measured["cancelled"].sum()) for *_, figures in rounds),
            "requests": sum(len(figures.measured) for *_, figures in rounds),
            "twin": twin,
        }
        compared = performance_rows(cell, "", "", sides, _WITHOUT, metrics=METRICS)
        judge_speed(compared, _WITHOUT, margin, deciding=())
        for row in compared:
            rows.append(
                head
                | {"metric": row["metric"], "unit": row["unit"]}
                | {side: row["engines"].get(side) for side in (_WITHOUT, _WITH)}
                | {"speed_ratio": row["speed_ratio"].get(_WITH)}
            )
    return rows


def _is_twin(other: JsonObject, cell: JsonObject) -> bool:
    return not (other.get("asked") or {}).get("cancel_share") and _load(other) == _load(cell)


def _load(scenario: JsonObject) -> JsonObject:
    known = {
        **(scenario.get("asked") or {}),
        "scenario": scenario.get("scenario"),
        "workload": scenario.get("workload"),
    }
    return {key: known.get(key) for key in _SAME_LOAD}
