"""The folders and files of a run, and how engines, cells and workloads are named in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from records.files import JsonObject, earlier_versions, read_json, set_aside

RESERVED_IN_RUN = frozenset({"run.json", "workloads", "regressions"})
"""Names in a run's folder that no engine may have, beside those that begin with `comparison-`."""
RESERVED_IN_ROUND = frozenset({"engine.json", "server.log", "gpu.jsonl", "host.jsonl"})
"""Names in a round's folder that no cell may have."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names that engines, scenarios, workloads and runs may have, since they become folder names."""


def workload_name(workload: str) -> str:
    """The name of a workload: a file's name without `.jsonl`, any other workload as it is."""
    return workload.rpartition("/")[2].removesuffix(".jsonl")


def cell_name(scenario: str, workload: str, name: str | None = None) -> str:
    """The name of a cell and its folder: `<scenario>.<workload>` unless the profile names it."""
    return name or f"{scenario}.{workload_name(workload)}"


def section_name(section: Mapping[str, Any]) -> str:
    """The name of the cell that a section of a resolved profile describes."""
    return cell_name(str(section.get("scenario")), str(section.get("workload")), section.get("name"))


@dataclass(frozen=True, slots=True)
class CellFolder:
    """`bench-out/<run>/<engine>/r<k>/<cell>/`: one cell of one round."""

    path: Path

    @property
    def requests(self) -> Path:
        return self.path / "requests.jsonl"

    @property
    def scenario(self) -> Path:
        return self.path / "scenario.json"

    @property
    def hooks(self) -> Path:
        """How the hooks of the profile ended. Without a hook there is no such file."""
        return self.path / "hooks.json"

    @property
    def name(self) -> str:
        return self.path.name

    def earlier_scenarios(self) -> list[JsonObject]:
        """scenario.json of each interrupted load of this cell, the earliest first."""
        return earlier_versions(self.path, "scenario")

    @property
    def complete(self) -> bool:
        """Whether the load ended as asked. Without a readable scenario.json it did not."""
        try:
            return read_json(self.scenario).get("complete") is True
        except (OSError, ValueError):
            return False

    def set_aside(self) -> Path | None:
        """Rename a broken capture to the next free `requests.partial-<k>.jsonl`; None if there is no capture."""
        return set_aside(self.requests)


@dataclass(frozen=True, slots=True)
class RoundFolder:
    """`bench-out/<run>/<engine>/r<k>/`: one engine process."""

    path: Path
    engine: str
    number: int

    @property
    def engine_json(self) -> Path:
        return self.path / "engine.json"

    @property
    def server_log(self) -> Path:
        return self.path / "server.log"

    @property
    def gpu(self) -> Path:
        return self.path / "gpu.jsonl"

    @property
    def host(self) -> Path:
        return self.path / "host.jsonl"

    def earlier_states(self) -> list[JsonObject]:
        """engine.json of each earlier engine process that ended before all cells of its round, the earliest first."""
        return earlier_versions(self.path, "engine")

    def cell(self, name: str) -> CellFolder:
        return CellFolder(self.path / name)

    def cells(self) -> list[CellFolder]:
        """The cells that have a folder, in name order."""
        if not self.path.is_dir():
            return []
        return [CellFolder(p) for p in sorted(self.path.iterdir()) if p.is_dir() and "." in p.name]


@dataclass(frozen=True, slots=True)
class PlainCell(CellFolder):
    """The capture of plain `locust`: a folder of any name, which holds one cell."""

    label: str

    @property
    def name(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True)
class PlainRound(RoundFolder):
    """The capture of plain `locust` as the only round of an engine of which nothing was read back."""

    label: str

    def cell(self, name: str) -> CellFolder:
        return PlainCell(self.path, name)

    def cells(self) -> list[CellFolder]:
        return [PlainCell(self.path, self.label)]


@dataclass(frozen=True, slots=True)
class RunFolder:
    """`bench-out/<run>/`: all that one stage hands to the next."""

    path: Path

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def manifest(self) -> Path:
        return self.path / "run.json"

    @property
    def night(self) -> Path:
        """What a nightly made of this run; only nights have it."""
        return self.path / "night.json"

    @property
    def is_plain_capture(self) -> bool:
        """Whether this is the capture folder of plain `locust`, without a driver's manifest."""
        return not self.manifest.is_file() and CellFolder(self.path).requests.is_file()

    @property
    def workloads(self) -> Path:
        return self.path / "workloads"

    def workload(self, name: str) -> Path:
        return self.workloads / f"{name}.jsonl"

    def round(self, engine: str, number: int) -> RoundFolder:
        return RoundFolder(self.path / engine / f"r{number}", engine, number)

    def rounds(self, engine: str) -> list[RoundFolder]:
        """The rounds of an engine that have a folder, by their number."""
        paths = (p for p in (self.path / engine).glob("r*") if p.is_dir() and p.name[1:].isdigit())
        rounds = [RoundFolder(path, engine, int(path.name[1:])) for path in paths]
        return sorted(rounds, key=lambda folder: folder.number)

    def comparison(self, stamp: str, suffix: str) -> Path:
        return self.path / f"comparison-{stamp}.{suffix}"
