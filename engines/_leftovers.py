"""The backstop: engines that are up are remembered by pid and start time, so that `doctor --clean` can end strays."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Leftover:
    """A remembered engine process that still lives."""

    pid: int
    created: float
    name: str
    path: Path


def state_dir() -> Path:
    """Where living engines are remembered (`$XDG_STATE_HOME/enginebench`)."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "enginebench" / "engines"


def remember(pid: int, name: str) -> None:
    """Note a process that was just started; one that has ended already is not noted."""
    try:
        created = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return
    folder = state_dir()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{pid}.json").write_text(json.dumps({"pid": pid, "created": created, "name": name}), encoding="utf-8")


def forget(pid: int) -> None:
    """Drop the note of a process that has ended."""
    (state_dir() / f"{pid}.json").unlink(missing_ok=True)


def find() -> list[Leftover]:
    """Remembered engines that still live. Notes of dead ones, and of pids that are somebody else now, are dropped."""
    found = []
    for path in sorted(state_dir().glob("*.json")):
        try:
            note = json.loads(path.read_text(encoding="utf-8"))
            process = psutil.Process(int(note["pid"]))
            # A pid is reused sooner or later; only the start time makes it the same process.
            if abs(process.create_time() - float(note["created"])) < 0.01 and process.status() != psutil.STATUS_ZOMBIE:
                found.append(Leftover(process.pid, float(note["created"]), str(note["name"]), path))
                continue
        except (psutil.NoSuchProcess, ValueError, KeyError, OSError):
            pass
        path.unlink(missing_ok=True)
    return found
