"""One cell: a headless `locust` in a process of its own, watched until it has ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver.profile.cell_options import DRAIN_TIMEOUT_S, flags
from driver.profile.read import Cell
from driver.run.engine_deaths import mark_engine_gone
from driver.run.pinning import pinned
from records import CellFolder, read_json, set_aside

ROOT = Path(__file__).resolve().parents[2]
STOP_GRACE_S = 5.0
"""How long the load process may take, once its requests have been drained, to write down what it has."""
DEATH_LAG_S = 1.0
"""How long after its end an engine may still pass for alive."""
USAGE = 2
"""Plain locust's exit code for options that cannot be used; scenario.json is then that of an earlier attempt."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one cell's load process is told."""

    cell: Cell
    folder: CellFolder
    engine: str
    round: int
    host: str
    model: str | None
    prompts: Path | str
    """A file, or the name of a workload."""
    request_extras: dict[str, Any]
    seed: int
    append: bool = False
    keep_raw: bool = False
    """Whether the bytes of failed requests are kept."""

    @property
    def stop_grace_s(self) -> float:
        """From SIGTERM to SIGKILL."""
        return float(self.cell.options.get("drain_timeout", DRAIN_TIMEOUT_S)) + STOP_GRACE_S

    def argv(self) -> list[str]:
        """The command, which also works typed by hand."""
        cell = self.cell
        argv = [sys.executable, "-m", "locust", "-f", str(ROOT / "locustfiles" / f"{cell.scenario}.py"), "--headless"]
        # Absolute: the load process runs in the checkout, wherever we were started.
        prompts = self.prompts.absolute() if isinstance(self.prompts, Path) else self.prompts
        argv += ["--host", self.host, "--prompts", str(prompts), "--capture-dir", str(self.folder.path.absolute())]
        argv += ["--engine", self.engine, "--cell", cell.label, "--workload", cell.workload_name]
        argv += ["--round", str(self.round), "--seed", str(self.seed)]
        argv += ["--requests", str(cell.requests or 0), "--warmup", str(cell.warmup)]
        argv += ["--max-tokens", str(cell.max_tokens), "--samples", str(cell.samples)]
        argv += ["--request-extras", json.dumps(self.request_extras)]
        argv += ["--request-timeout", str(cell.request_timeout_s), "--silence-timeout", str(cell.silence_timeout_s)]
        argv += ["--model", self.model] if self.model else []
        argv += ["--duration", str(cell.duration_s)] if cell.duration_s else []
        argv += ["--users", str(cell.users)] if cell.users else []
        argv += ["--fixed-length"] if cell.fixed_length else []
        argv += ["--append"] if self.append else []
        argv += ["--keep-raw"] if self.keep_raw else []
        return argv + flags(cell.options)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """How a cell ended."""

    exit_code: int
    complete: bool
    why: str
    """Why it is not complete, where it is not."""
    engine_died: bool


def run_load(load: Load, *, engine_alive: Callable[[], bool], on_tick: Callable[[], None]) -> LoadResult:
    """Run one cell to its end, calling `on_tick` about ten times a second.

    The load process is stopped (SIGTERM, then SIGKILL) when the engine dies or when the caller is interrupted; what it
    had written stays. Records that ended with the engine are marked `engine_gone`.
    """
    load.folder.path.mkdir(parents=True, exist_ok=True)
    log_path = load.folder.path / "load.log"
    # A resumed cell has a log of its own.
    set_aside(log_path)
    died = False
    with log_path.open("wb") as log, pinned(load.cell.cores):
        process = subprocess.Popen(  # its own group: a Ctrl-C at the terminal must reach it only through us
            load.argv(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT, start_new_session=True, env=_env()
        )
    try:
        while process.poll() is None:
            if died := not engine_alive():
                break
            on_tick()
            time.sleep(0.1)
    finally:
        _stop(process, grace_s=load.stop_grace_s)
    code = process.returncode
    # Requests that failed may be the first sign of a death, before the engine's supervisor has said so.
    deadline = time.monotonic() + (DEATH_LAG_S if code else 0.0)
    while not (died := died or not engine_alive()) and time.monotonic() < deadline:
        time.sleep(0.05)
    if died:
        mark_engine_gone(load.folder)
    return LoadResult(code, load.folder.complete, _why_incomplete(load.folder, code, log_path), died)


def _why_incomplete(folder: CellFolder, code: int, log: Path) -> str:
    """The load's own reason; where it did not come to one, the last error of its log, or its signal."""
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    if code == USAGE:
        refused = [line.partition(": error: ")[2] for line in _lines(log) if ": error: " in line]
        return refused[0] if refused else last_line(log)
    with contextlib.suppress(OSError, ValueError):
        reason = read_json(folder.scenario).get("incomplete_reason")
        if reason and reason != "not ended":
            return str(reason)
    for line in reversed(_lines(log)):
        if "/ERROR/" in line:
            return line.partition("/ERROR/")[2].partition(": ")[2]
    return last_line(log)


def _env() -> dict[str, str]:
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH")]))
    env["PYTHONUNBUFFERED"] = "1"
    # The load process ends when this one does, also after a SIGKILL.
    env["ENGINEBENCH_DRIVER_PID"] = str(os.getpid())
    return env


def _stop(process: subprocess.Popen[bytes], *, grace_s: float) -> None:
    for sign, grace in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, sign)
            process.wait(grace)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def last_line(path: Path) -> str:
    """The last line of a log that says anything, without this tool's name, for a one-line error."""
    told = next((line.strip() for line in reversed(_lines(path)) if line.strip()), f"nothing in {path}")
    return told.removeprefix("enginebench: ")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
