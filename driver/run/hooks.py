"""Runs the hooks of a profile: commands before, after and during a cell, and after a regression.

A hook runs without a shell, in the folder where the command was typed. Its environment names the engine and the cell.
Its output and its result are stored in the cell's folder. It is stopped with its children when its time is up, or when
the driver ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from driver.profile.sections import Hooks
from driver.run.progress import Display
from engines.process.supervised import StartError, Supervised
from records import CellFolder, JsonObject, read_json, set_aside, write_json
from records.redaction import shown_argv

GRACE_S = 2.0
"""Seconds from SIGTERM to SIGKILL."""


@dataclass(frozen=True, slots=True)
class Target:
    """The running engine and its current cell, as a hook sees them."""

    engine: str
    baseline: str
    pid: int | None
    """None for a server that was not started here."""
    port: int | None
    url: str
    cell: str
    round: int
    folder: CellFolder

    def env(self, hook: str) -> dict[str, str]:
        """The environment variables of a hook; unknown values are left out."""
        values = {
            "HOOK": hook,
            "ENGINE": self.engine,
            "BASELINE": self.baseline,
            "ENGINE_PID": self.pid,
            "PORT": self.port,
            "URL": self.url,
            "CELL": self.cell,
            "ROUND": self.round,
            "FOLDER": self.folder.path.absolute(),
        }
        return {f"ENGINEBENCH_{name}": str(value) for name, value in values.items() if value is not None}


@contextmanager
def around(hooks: Hooks, target: Target, display: Display) -> Iterator[None]:
    """Run the hooks of a cell: before and after the block, and beside it in the round `during_round`."""
    # A cell that starts again gets a new hooks.json.
    set_aside(target.folder.hooks)
    _run("before_cell", hooks.before_cell, hooks.timeout_s, target, display)
    beside = hooks.during_cell if target.round == hooks.during_round else ()
    with _beside(beside, hooks.timeout_s, target, display):
        yield
    _run("after_cell", hooks.after_cell, hooks.timeout_s, target, display)


def _run(hook: str, command: tuple[str, ...], timeout_s: float, target: Target, display: Display) -> None:
    """Run one hook to its end. A hook that fails is reported and does not stop the run."""
    if not command:
        return
    started = time.monotonic()
    try:
        process = _start(hook, command, target)
    except StartError as refused:
        _note(hook, command, target, display, 0.0, None, error=str(refused))
        return
    timed_out = False
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        code = process.stop()
    error = f"was stopped after {timeout_s:g} s" if timed_out else None
    _note(hook, command, target, display, time.monotonic() - started, code, error=error)


@contextmanager
def _beside(command: tuple[str, ...], timeout_s: float, target: Target, display: Display) -> Iterator[None]:
    """Run a hook beside the block; then send SIGINT, so that the hook can write its results."""
    if not command:
        yield
        return
    started = time.monotonic()
    try:
        process = _start("during_cell", command, target)
    except StartError as refused:
        _note("during_cell", command, target, display, 0.0, None, error=str(refused))
        yield
        return
    error = None
    try:
        yield
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            error = f"was stopped {timeout_s:g} s after the cell"
    finally:
        code = process.stop()
        interrupted = code == 128 + signal.SIGINT
        seconds = time.monotonic() - started
        _note("during_cell", command, target, display, seconds, 0 if interrupted else code, error=error)


def _start(hook: str, command: tuple[str, ...], target: Target) -> Supervised:
    log = target.folder.path / f"{hook}.log"
    # Remembers the secrets in the command line, so that they are scrubbed from the log.
    shown_argv(command)
    return Supervised(command, env=target.env(hook), folder=Path.cwd(), log=log, grace_s=GRACE_S)


def _note(
    hook: str,
    command: tuple[str, ...],
    target: Target,
    display: Display,
    seconds: float,
    code: int | None,
    *,
    error: str | None,
) -> None:
    log = target.folder.path / f"{hook}.log"
    if error is None and code:
        error = f"ended with exit code {code}"
    row = {"hook": hook, "argv": shown_argv(command), "seconds": round(seconds, 1), "exit_code": code, "error": error}
    notes: list[JsonObject] = []
    with contextlib.suppress(OSError, ValueError):
        notes = read_json(target.folder.hooks)["hooks"]
    write_json(target.folder.hooks, {"hooks": [*notes, row]})
    if error is not None:
        where = f"{target.engine} r{target.round} {target.cell}"
        display.say(f"{where}: hook {hook} {'cannot be started: ' if code is None else ''}{error}; see {log}")
