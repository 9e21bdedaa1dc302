"""What a comparison is put together from, cell by cell, and how it becomes plain JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from records import JsonObject
from scoring.captures import Capture
from scoring.quality.accuracy import AnswersPair
from scoring.speed import breakdown, gpu
from scoring.speed.latency import CellFigures, MeasuredRound


@dataclass(slots=True)
class Parts:
    """What accumulates from cell to cell."""

    audit: list[JsonObject] = field(default_factory=list)
    performance: list[JsonObject] = field(default_factory=list)
    steps: list[JsonObject] = field(default_factory=list)
    capacity: list[JsonObject] = field(default_factory=list)
    quality: list[JsonObject] = field(default_factory=list)
    answer_pairs: list[AnswersPair] = field(default_factory=list)
    """The pairs in `quality`, with the evidence that their verdicts rest on."""
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
    """Every request that counts, and the warm-up; superseded attempts are left out."""
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
    head = {"engine": capture.engine, "round": capture.round, "cell": capture.cell}
    return [head | dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def gpu_series(parts: Parts) -> list[JsonObject]:
    """What the meter saw of each life of each engine, thinned for charts; lives that it did not see are left out."""
    found = [gpu.gpu_series(e, number, rows) for e, lives in parts.gpu.items() for number, rows in lives.items()]
    return [series for series in found if series]


def plain(value: Any) -> Any:
    """Make it JSON: NaN and infinity are null, since a value that is not known is null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if value == value and abs(value) != float("inf") else None
    return value
