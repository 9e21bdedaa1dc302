"""Converts a run's folder to the rows of the history. Reads files; writes nothing."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nightly.history.rows import WHOLE_RUN, EngineRow, FigureRow, ImportedRun, QualityRow, Status
from nightly.history.schema import HistoryError
from records import JsonObject, RunFolder, read_json, section_name
from scoring.comparability import engine_facts, host_facts, load_hashes


def read_run(folder: RunFolder) -> ImportedRun:
    """Read a scored run: `run.json`, its newest `comparison-*.json`, and each engine's `engine.json`.

    Raises:
        HistoryError: one line that names the file that is missing or unreadable.
    """
    try:
        manifest = read_json(folder.manifest)
        comparisons = own_comparisons(folder)
        if not comparisons:
            raise HistoryError(f"{folder.path}: no comparison-*.json; score and compare the run first")
        return from_documents(manifest, read_json(comparisons[-1]), folder)
    except FileNotFoundError as error:
        raise HistoryError(f"{error.filename}: no such file; is {folder.path} a run's folder?") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, HistoryError):
            raise
        raise HistoryError(f"{folder.path}: cannot be imported: {type(error).__name__}: {error}") from None


def own_comparisons(folder: RunFolder) -> list[Path]:
    """The comparisons of a run's own engines, oldest first, without comparisons with another run."""
    paths = [path for path in folder.path.glob("comparison-*.json") if "-against-" not in path.name]
    return sorted(paths, key=lambda path: (path.stat().st_mtime_ns, path.name))


def from_documents(manifest: JsonObject, comparison: JsonObject, folder: RunFolder | None = None) -> ImportedRun:
    """The rows of one run. Without a folder, builds and set-ups are unknown.

    Raises:
        KeyError, TypeError, AttributeError: a document does not have the documented shape.
    """
    profile = manifest.get("profile") or {}
    run_id = str(comparison.get("run_id") or manifest["run_id"])
    status: Status = "complete"
    if (comparison.get("verdict") or {}).get("void") or any(
        row["status"] == "fail" for row in comparison.get("audit", [])
    ):
        status = "void"
    elif folder is not None and _unfinished(folder, profile):
        status = "partial"
    figures, answers = figure_rows(comparison), quality_rows(comparison)
    kept = {"run": run_id, "figures": [_plain(row) for row in figures], "quality": [_plain(row) for row in answers]}
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
    return ImportedRun(
        run_id=run_id,
        created_utc=str(manifest.get("created_utc") or comparison["created"]),
        profile=str(profile.get("name", "")),
        profile_sha256=manifest.get("profile_sha256"),
        fingerprint=host_facts(manifest),
        status=status,
        engines=[_engine(name, profile, folder, card) for name, card in comparison["engines"].items()],
        cells=load_hashes(manifest),
        figures=figures,
        quality=answers,
        digest=digest,
    )


def _plain(row: FigureRow | QualityRow) -> list[Any]:
    return [getattr(row, name) for name in row.__slots__]


def _engine(name: str, profile: Mapping[str, Any], folder: RunFolder | None, card: JsonObject) -> EngineRow:
    section: JsonObject = next((engine for engine in profile.get("engines", []) if engine.get("name") == name), {})
    state: JsonObject = {}
    for round_folder in folder.rounds(name) if folder else []:
        if round_folder.engine_json.exists():
            state = read_json(round_folder.engine_json)
            break
    build = (state.get("readback") or {}).get("build") or card.get("build")
    if build is None and state.get("provenance"):
        provenance = state["provenance"]
        build = provenance.get("build") or provenance.get("pin") or provenance.get("version")
    setup = engine_facts(state) if state else {}
    return EngineRow(name, state.get("kind") or section.get("kind"), None if build is None else str(build), setup)


def _unfinished(folder: RunFolder, profile: Mapping[str, Any]) -> bool:
    """Whether any cell of the profile is missing or incomplete."""
    asked = profile.get("rounds") or 1
    # With `rounds = "auto"`: the rounds that were started.
    rounds = asked if isinstance(asked, int) else max((r.number for r in folder.rounds(profile["baseline"])), default=1)
    for engine in profile.get("engines", []):
        for cell in profile.get("cells") or []:
            # A cell may ask for fewer rounds than the run has.
            for number in range(1, int(cell.get("rounds") or rounds) + 1):
                if not folder.round(engine["name"], number).cell(section_name(cell)).complete:
                    return True
    return False


def figure_rows(comparison: Mapping[str, Any]) -> list[FigureRow]:
    """All figures of a comparison, over all rounds and by round."""
    rows: list[FigureRow] = []
    for row in comparison.get("performance", []):
        cell = row["cell"]
        for engine, figure in row["engines"].items():
            value = _number(figure.get("value"))
            if value is None:
                continue
            low, high = figure.get("ci") or (None, None)
            rows.append(
                FigureRow(
                    engine,
                    cell,
                    row["metric"],
                    WHOLE_RUN,
                    value,
                    figure.get("n"),
                    _number(low),
                    _number(high),
                    row.get("unit"),
                )
            )
            for number, given in figure["rounds"].items():
                if (single := _number(given)) is not None:
                    rows.append(FigureRow(engine, cell, row["metric"], int(number), single, unit=row.get("unit")))
    return sorted(rows, key=lambda row: (row.engine, row.cell, row.metric, row.round))


def quality_rows(comparison: Mapping[str, Any]) -> list[QualityRow]:
    """The answers of a comparison."""
    rows = []
    for row in comparison.get("quality", []):
        cell = row["cell"]
        problems = [p for p in comparison.get("problems", []) if p["cell"] == cell]
        for engine, answers in row["engines"].items():
            low, high = answers.get("ci") or (None, None)
            samples: dict[str, list[bool]] = defaultdict(list)
            for problem in problems:
                if engine in problem["engines"]:
                    samples[str(problem["prompt_id"])].append(bool(problem["engines"][engine].get("correct")))
            marks = [mark for group in samples.values() for mark in group]
            n = answers.get("n", row.get("n"))
            rows.append(
                QualityRow(
                    engine,
                    cell,
                    n,
                    answers.get("correct"),
                    _number(answers.get("accuracy")),
                    _number(low),
                    _number(high),
                    answers.get("truncated"),
                    answers.get("no_answer"),
                    answers.get("errors"),
                    # An incomplete list would pair the wrong problems.
                    {prompt: sum(group) / len(group) for prompt, group in samples.items()}
                    if marks and len(marks) == n and sum(marks) == answers.get("correct")
                    else None,
                )
            )
    return sorted(rows, key=lambda row: (row.cell, row.engine))


def _number(value: Any) -> float | None:
    """A finite float, else None: SQLite would store a NaN as NULL, and infinity is no figure."""
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None
