"""Collects the parts of a comparison cell by cell, and converts them to plain JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from records import JsonObject
from scoring.captures import Capture
from scoring.quality.accuracy import AnswersPair
from scoring.speed import breakdown, gpu
from scoring.speed.latency import CellFigures, MeasuredRound


@dataclass(slots=True)
class Parts:
    """The results so far; every cell adds to them."""

    audit: list[JsonObject] = field(default_factory=list)
    performance: list[JsonObject] = field(default_factory=list)
    steps: list[JsonObject] = field(default_factory=list)
    capacity: list[JsonObject] = field(default_factory=list)
    turns: list[JsonObject] = field(default_factory=list)
    conversations: list[JsonObject] = field(default_factory=list)
    reuse: list[JsonObject] = field(default_factory=list)
    quality: list[JsonObject] = field(default_factory=list)
    answer_pairs: list[AnswersPair] = field(default_factory=list)
    """The pairs in `quality`, with the evidence for their verdicts."""
    divergence: list[JsonObject] = field(default_factory=list)
    problems: list[JsonObject] = field(default_factory=list)
    requests: list[JsonObject] = field(default_factory=list)
    host: list[JsonObject] = field(default_factory=list)
    series: list[JsonObject] = field(default_factory=list)
    gpu: dict[str, dict[int, list[JsonObject]]] = field(default_factory=dict)
    loads: dict[str, dict[str, tuple[str, list[CellFigures]]]] = field(default_factory=dict)
    """By engine and cell: its workload and the figures of its rounds."""
    measured: dict[str, dict[str, list[MeasuredRound]]] = field(default_factory=dict)
    """By engine and cell."""
    means: dict[tuple[str, str, str], breakdown.Means] = field(default_factory=dict)
    """By cell, workload and engine."""

    def breakdown(self) -> list[JsonObject]:
        alone = {(w, engine): m for (_, w, engine), m in self.means.items() if m.concurrency == 1}
        return [
            {"cell": cell, "workload": workload, "engine": engine} | breakdown.split(workload, engine, means, alone)
            for (cell, workload, engine), means in self.means.items()
        ]


_REQUEST_LATENCIES = ("ttft_ms", "tpot_ms", "e2e_ms")


def request_rows(capture: Capture, figures: CellFigures) -> list[JsonObject]:
    """One row per request, warm-up included, without superseded attempts."""
    frame = figures.requests
    frame = frame[frame["measured"] | (frame["phase"] == "warmup")]
    columns: dict[str, list[Any]] = {
        "id": frame["id"].tolist(),
        "phase": frame["phase"].tolist(),
        "prompt_id": frame["prompt_id"].tolist(),
        **{name: frame[name].round(4).tolist() for name in _REQUEST_LATENCIES},
        "completion_tokens": [None if t != t else int(t) for t in frame["completion_tokens"]],
        "status": frame["status"].tolist(),
        "error": [
            {"kind": kind, "message": message} if kind is not None else None
            for kind, message in zip(frame["error_kind"], frame["error_message"], strict=True)
        ],
    }
    columns |= _reuse_columns(frame)
    head = {"engine": capture.engine, "round": capture.round, "cell": capture.cell}
    return [head | dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _reuse_columns(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Turns, reusable and cached tokens, in a cell that has such."""
    names = {"turn": "turn", "reusable_tokens": "reusable_tokens", "cached_tokens": "found_tokens"}
    if not frame[list(names.values())].gt(0).any(axis=None):
        return {}
    return {key: [None if v != v else int(v) for v in frame[name]] for key, name in names.items()}


def gpu_series(parts: Parts) -> list[JsonObject]:
    """The GPU meter's samples of each engine and round, thinned for charts; rounds without samples are left out."""
    curves = [gpu.gpu_series(e, number, rows) for e, rounds in parts.gpu.items() for number, rows in rounds.items()]
    return [curve for curve in curves if curve]


def plain(value: Any) -> Any:
    """Convert a value to plain JSON; NaN and infinity become null, which stands for unknown."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if value == value and abs(value) != float("inf") else None
    return value
