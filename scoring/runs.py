"""Reads a run's folder: the manifest and the rounds of each engine. Captures are read one cell at a time, on demand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import orjson

from records import CellFolder, JsonObject, RoundFolder, RunFolder, read_json, section_name
from records.files import require_regular
from records.run_folder import PlainRound
from scoring.captures import Capture, load_capture, require_known_schema
from scoring.shapes import ENGINE, MANIFEST, require_shape


@dataclass(slots=True)
class Round:
    """One round of an engine: its state (engine.json) and the folder of its captures."""

    folder: RoundFolder
    state: JsonObject
    """engine.json of the round's last engine process; empty where there is none."""
    label: str = ""
    """The engine's name in the comparison; its own name unless two runs are compared."""
    earlier: list[JsonObject] = field(default_factory=list)
    """engine.json of the earlier engine processes, where the round was interrupted and finished later."""

    @property
    def engine(self) -> str:
        return self.label or self.folder.engine

    @property
    def number(self) -> int:
        return self.folder.number

    def all_processes(self) -> list[Round]:
        """The round once per engine process that measured, in order; a check of identity looks at each."""
        states = [state for state in (*self.earlier, self.state) if state and not state.get("refused")]
        return [replace(self, state=state, earlier=[]) for state in states]

    def earlier_processes(self) -> list[Round]:
        """The earlier engine processes of an interrupted round, without those whose end nobody recorded."""
        return [Round(self.folder, state, self.label) for state in self.earlier if state.get("machine")]

    def gpu_rows(self) -> list[JsonObject]:
        """The GPU meter's samples; empty where it did not run."""
        return _samples(self.folder.gpu)

    def host_rows(self) -> list[JsonObject]:
        """The host meter's samples; empty where it did not run."""
        return _samples(self.folder.host)


@dataclass(slots=True)
class Run:
    """An open run's folder. Small files are in memory; `captures` reads the captures from disk."""

    folder: RunFolder
    manifest: JsonObject
    engines: list[str]
    """The baseline first."""
    rounds: dict[str, list[Round]] = field(default_factory=dict)
    cells: list[str] = field(default_factory=list)
    """In the profile's order, then any others by name."""
    manifests: dict[str, JsonObject] = field(default_factory=dict)
    """For two joined runs: by engine, the manifest of its run."""

    def of_engine(self, engine: str) -> Run:
        """The run with the manifest (profile, host) of this engine's own run."""
        return replace(self, manifest=self.manifests[engine]) if engine in self.manifests else self

    @property
    def profile(self) -> JsonObject:
        return self.manifest.get("profile") or {}

    @property
    def baseline(self) -> str:
        return self.engines[0]

    @property
    def order(self) -> list[tuple[str, int]]:
        """(engine, round) of every engine process in the order in which they ran; empty where it is not recorded."""
        return [(str(engine), int(number)) for engine, number in self.manifest.get("order") or []]

    def cell_profile(self, cell: str) -> JsonObject:
        """The profile's section of a cell; empty where it has none."""
        return next((section for section in profile_cells(self.profile) if section_name(section) == cell), {})

    def captures(self, cell: str, engine: str) -> Iterator[tuple[Round, Capture]]:
        """Read one engine's captures of a cell, round by round; a round without any is left out.

        Raises:
            ValueError: a line that is not the last cannot be read; the message names file and line.
        """
        for round_ in self.rounds.get(engine, []):
            folder, resumable = round_.folder.cell(cell), self.of_engine(engine).asks_all(cell)
            if folder.requests.exists():
                yield round_, load_capture(folder, engine, round_.number, resumable=resumable)

    def asks_all(self, cell: str) -> bool:
        """Whether the cell asks every prompt of its workload once (for each sample), and so can be resumed."""
        section = self.cell_profile(cell)
        limited = any(section.get(key) for key in ("requests", "conversations", "duration_s"))
        limited = limited or section.get("scenario") == "capacity"
        return bool(section) and not limited


ASKED_KEYS = ("requests", "conversations", "duration_s", "samples", "max_tokens", "users")
"""What scenario.json says was asked, as far as it is a key of a profile's cell."""


def profile_cells(profile: JsonObject) -> list[JsonObject]:
    """The cell sections of a resolved profile."""
    return profile.get("cells") or []


def load_run(folder: RunFolder) -> Run:
    """Open a run's folder.

    Raises:
        ValueError: there is no manifest, it cannot be read, or no engine left a capture; one line.
    """
    if folder.is_plain_capture:
        return _plain_run(folder)
    try:
        manifest = read_json(folder.manifest)
    except FileNotFoundError:
        raise ValueError(f"{folder.manifest}: no such file; is this the folder of a run?") from None
    require_known_schema(folder.manifest, manifest)
    require_shape(folder.manifest, manifest, MANIFEST)
    profile = manifest.get("profile") or {}
    named = [str(engine["name"]) for engine in profile.get("engines") or []]
    if not named:
        named = sorted(p.name for p in folder.path.iterdir() if p.is_dir() and any(p.glob("r*")))
    if not named:
        raise ValueError(f"{folder.path}: holds no capture of any engine")
    baseline = profile.get("baseline") or named[0]
    for name in (*named, baseline, *map(section_name, profile_cells(profile))):
        if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
            raise ValueError(f"{folder.manifest}: {name!r} cannot be the name of an engine or cell: it leads elsewhere")
    engines = [baseline, *(name for name in named if name != baseline)]
    run = Run(folder, manifest, engines)
    # An interrupted round counts once the run was resumed and completed it; until then only complete rounds count.
    complete = manifest.get("rounds_done")
    captured: set[str] = set()
    for engine in engines:
        run.rounds[engine] = [
            Round(round_, _state(round_), engine, round_.earlier_states())
            for round_ in folder.rounds(engine)
            if complete is None or round_.number <= complete
        ]
        for round_ in run.rounds[engine]:
            captured.update(cell.name for cell in round_.folder.cells() if cell.requests.exists())
    asked = [section_name(section) for section in profile_cells(profile)]
    run.cells = [name for name in asked if name in captured] + sorted(captured.difference(asked))
    return run


def _plain_run(folder: RunFolder) -> Run:
    """The capture of plain `locust` as a run of one engine and one round, without any read-back.

    Raises:
        ValueError: scenario.json cannot be read.
    """
    try:
        scenario = read_json(CellFolder(folder.path).scenario)
    except FileNotFoundError:
        raise ValueError(f"{folder.path}: has no scenario.json; was it made by another program?") from None
    engine, cell = str(scenario["engine"]), str(scenario["cell"])
    number = int(scenario.get("round") or 1)
    asked = scenario.get("asked") or {}
    names = {"scenario": scenario["scenario"], "workload": scenario["workload"], "name": cell}
    section = names | {key: asked.get(key) for key in ASKED_KEYS}
    profile = {"name": "plain locust", "baseline": engine, "engines": [{"name": engine}], "cells": [section]}
    round_folder = PlainRound(folder.path, engine, number, cell)
    manifest: JsonObject = {"profile": profile, "plain_capture": True}
    return Run(folder, manifest, [engine], {engine: [Round(round_folder, {}, engine)]}, [cell])


def plain_capture_rows(run: Run) -> list[JsonObject]:
    """An audit row for each engine that plain `locust` captured: its build and model are unknown."""
    evidence = "a capture of plain locust: nothing was read back from the engine; build, model and settings are unknown"
    return [
        {"check": "engine read back", "engine": engine, "cell": None, "status": "unknown", "evidence": evidence}
        for engine in run.engines
        if any(isinstance(round_.folder, PlainRound) for round_ in run.rounds.get(engine, []))
    ]


def _state(round_: RoundFolder) -> JsonObject:
    try:
        state = read_json(round_.engine_json)
    except FileNotFoundError:
        return {}
    require_known_schema(round_.engine_json, state)
    require_shape(round_.engine_json, state, ENGINE)
    return state


def _samples(path: Path) -> list[JsonObject]:
    """The rows of a meter's file."""
    require_regular(path)
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    rows = []
    for line in lines:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue  # a line cut by a kill
        if isinstance(row, dict):
            rows.append(row)
    return rows
