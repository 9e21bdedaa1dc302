"""From a run's folder to the rows that the history keeps. Reads files; writes nothing."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from records import JsonObject, RunFolder, read_json
from reporting._history_identity import cell_loads, cell_name, engine_setup, host_fingerprint
from reporting._history_schema import HistoryError

Status = Literal["running", "complete", "partial", "void"]

WHOLE_RUN = 0
"""The round of a figure over all rounds, as the comparison gives it; real rounds count from 1."""


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure of one engine: a round's, or (round 0) the whole run's. `n` counts requests."""

    engine: str
    cell: str
    metric: str
    round: int
    value: float
    n: int | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class QualityRow:
    """Answers of one engine in one cell.

    `outcomes` maps prompt_id to the share of its samples that was right, where the comparison lists every answer.
    """

    engine: str
    cell: str
    n: int | None
    correct: int | None
    accuracy: float | None
    ci_low: float | None
    ci_high: float | None
    truncated: int | None
    no_answer: int | None
    errors: int | None
    outcomes: dict[str, float] | None = None


@dataclass(frozen=True, slots=True)
class EngineRow:
    """One engine of a run: what was built, and what it was given."""

    engine: str
    kind: str | None
    build: str | None
    setup: JsonObject


@dataclass(slots=True)
class ImportedRun:
    """Everything of a run that the history keeps."""

    run_id: str
    created_utc: str
    profile: str
    profile_sha256: str | None
    fingerprint: JsonObject
    status: Status
    engines: list[EngineRow]
    cells: dict[str, str]
    figures: list[FigureRow]
    quality: list[QualityRow]
    digest: str
    kind: str = "run"
    confirms: str | None = None
    notes: list[str] = field(default_factory=list)


def read_run(folder: RunFolder) -> ImportedRun:
    """Read a scored run: `run.json`, its newest `comparison-*.json`, and each engine's `engine.json`.

    Raises:
        HistoryError: one line that names the file that is missing or unreadable.
    """
    try:
        manifest = read_json(folder.manifest)
        found = own_comparisons(folder)
        if not found:
            raise HistoryError(f"{folder.path}: no comparison-*.json; score and compare the run first")
        return from_documents(manifest, read_json(found[-1]), folder)
    except FileNotFoundError as error:
        raise HistoryError(f"{error.filename}: no such file; is {folder.path} a run's folder?") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, HistoryError):
            raise
        raise HistoryError(f"{folder.path}: cannot be imported: {type(error).__name__}: {error}") from None


def own_comparisons(folder: RunFolder) -> list[Path]:
    """The comparisons of a run by itself, oldest first; those against another run are left out."""
    found = [path for path in folder.path.glob("comparison-*.json") if "-against-" not in path.name]
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


def from_documents(manifest: JsonObject, comparison: JsonObject, folder: RunFolder | None = None) -> ImportedRun:
    """The rows of one run. Without a folder nothing is known of builds and set-ups.

    Raises:
        KeyError, TypeError, AttributeError: a document is not of the documented shape.
    """
    profile = manifest.get("profile") or {}
    run_id = str(comparison.get("run_id") or manifest["run_id"])
    told = comparison["engines"]
    cards: dict[str, JsonObject] = told if isinstance(told, dict) else {}
    engines = [str(name) for name in told]
    status: Status = "complete"
    if (comparison.get("verdict") or {}).get("void") or any(
        row["status"] == "fail" for row in comparison.get("audit", [])
    ):
        status = "void"
    elif folder is not None and _unfinished(folder, profile):
        status = "partial"
    figures = _figures(comparison)
    quality = _quality(comparison)
    kept = {"run": run_id, "figures": [_plain(row) for row in figures], "quality": [_plain(row) for row in quality]}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
    return ImportedRun(
        run_id=run_id,
        created_utc=str(manifest.get("created_utc") or comparison["created"]),
        profile=str(profile.get("name", "")),
        profile_sha256=manifest.get("profile_sha256"),
        fingerprint=host_fingerprint(manifest),
        status=status,
        engines=[_engine(name, profile, folder, cards.get(name, {})) for name in engines],
        cells=cell_loads(manifest),
        figures=figures,
        quality=quality,
        digest=digest,
    )


def _plain(row: FigureRow | QualityRow) -> list[Any]:
    return [getattr(row, name) for name in row.__slots__]


def _engine(name: str, profile: Mapping[str, Any], folder: RunFolder | None, card: JsonObject) -> EngineRow:
    section: JsonObject = next((engine for engine in profile.get("engines", []) if engine.get("name") == name), {})
    told: JsonObject = {}
    for round_folder in folder.rounds(name) if folder else []:
        if round_folder.engine_json.exists():
            told = read_json(round_folder.engine_json)
            break
    build = (told.get("readback") or {}).get("build") or card.get("build")
    if build is None and told.get("provenance"):
        provenance = told["provenance"]
        build = provenance.get("build") or provenance.get("pin") or provenance.get("version")
    setup = engine_setup(told) if told else {}
    return EngineRow(name, told.get("kind") or section.get("kind"), None if build is None else str(build), setup)


def _unfinished(folder: RunFolder, profile: Mapping[str, Any]) -> bool:
    """Whether any cell that the profile asks for has not ended as asked."""
    rounds = int(profile.get("rounds") or 1)
    for engine in profile.get("engines", []):
        for cell in profile.get("cells") or profile.get("scenarios") or []:
            # A cell may ask for fewer rounds than the run has.
            for number in range(1, int(cell.get("rounds") or rounds) + 1):
                if not folder.round(engine["name"], number).cell(cell_name(cell)[0]).complete:
                    return True
    return False


def _figures(comparison: Mapping[str, Any]) -> list[FigureRow]:
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


def _quality(comparison: Mapping[str, Any]) -> list[QualityRow]:
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
