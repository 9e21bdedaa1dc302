"""Remembers running engines by pid and start time, so that `doctor --clean` can stop those left by a killed run."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

LIFE_VARIABLE = "ENGINEBENCH_LIFE"
END_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Leftover:
    """Processes of a remembered engine that still run. If their driver runs too, they belong to a running run."""

    name: str
    pid: int
    path: Path
    driver_lives: bool
    processes: tuple[psutil.Process, ...] = field(repr=False)


def state_dir() -> Path:
    """The folder with notes on running engines (`$XDG_STATE_HOME/enginebench`)."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "enginebench" / "engines"


def remember(pid: int, name: str, life: str) -> None:
    """Write a note on a process that was just started, if it still runs. An unwritable home folder is no error."""
    with contextlib.suppress(OSError, psutil.NoSuchProcess):
        note = {
            "pid": pid,
            "created": psutil.Process(pid).create_time(),
            "name": name,
            "life": life,
            "driver": os.getpid(),
            "driver_created": psutil.Process().create_time(),
        }
        folder = state_dir()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{pid}.json").write_text(json.dumps(note), encoding="utf-8")


def forget(pid: int) -> None:
    """Drop the note of a process that has ended."""
    with contextlib.suppress(OSError):
        (state_dir() / f"{pid}.json").unlink(missing_ok=True)


def find() -> list[Leftover]:
    """Remembered engines that still have a process. Removes the notes of dead engines and of reused pids."""
    leftovers = []
    for path in sorted(state_dir().glob("*.json")):
        try:
            note: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            pid, life = int(note["pid"]), str(note["life"])
            same = _is_same(pid, float(note["created"]))
            living = tuple(family(pid if same else None, life))
            driver_lives = _is_same(int(note["driver"]), float(note["driver_created"]))
            name = str(note["name"])
        except (ValueError, KeyError, TypeError, OSError):
            living = ()
        if living:
            leftovers.append(Leftover(name, pid, path, driver_lives, living))
        else:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    return leftovers


def end(leftover: Leftover) -> bool:
    """Stop all remaining processes of an engine (SIGTERM, then SIGKILL); returns whether all have ended."""
    gone = end_processes(list(leftover.processes), END_GRACE_S)
    if gone:
        forget(leftover.pid)
    return gone


def end_processes(processes: list[psutil.Process], grace_s: float) -> bool:
    """SIGTERM, after `grace_s` SIGKILL; psutil checks the start time, so that a reused pid is never hit."""
    for sign in ("terminate", "kill"):
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                getattr(process, sign)()
        deadline = time.monotonic() + grace_s
        while (processes := [process for process in processes if _lives(process)]) and time.monotonic() < deadline:
            time.sleep(0.05)
        if not processes:
            return True
    return False


def family(pid: int | None, life: str | None) -> list[psutil.Process]:
    """All processes of an engine: its group, its session, and processes that carry its mark in the environment.

    The mark finds processes that left group and session; the group finds those that overwrote their environment.
    """
    members = []
    me = os.getpid()
    for process in psutil.process_iter():
        if process.pid != me and _lives(process) and (_in_group(process.pid, pid) or _is_marked(process, life)):
            members.append(process)
    return members


def _in_group(pid: int, leader: int | None) -> bool:
    if leader is None:
        return False
    try:
        return leader in (pid, os.getpgid(pid), os.getsid(pid))
    except OSError:
        return False


def _is_marked(process: psutil.Process, life: str | None) -> bool:
    if life is None:
        return False
    try:
        return process.environ().get(LIFE_VARIABLE) == life
    except (psutil.Error, OSError):
        return False


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True


def _is_same(pid: int, created: float) -> bool:
    # Pids are reused, so only pid and start time together identify a process.
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - created) < 0.01 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
