"""One cell: a headless `locust` in a process of its own, watched until it has ended."""

from __future__ import annotations

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

from driver.afterwards import mark_engine_gone
from driver.pinning import pinned
from driver.profile import Cell
from records import CellFolder

ROOT = Path(__file__).resolve().parent.parent
STOP_GRACE_S = 15.0
"""How long the load process may take to write down what it has after SIGTERM."""


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

    def argv(self) -> list[str]:
        """The command, which also works typed by hand."""
        cell = self.cell
        argv = [sys.executable, "-m", "locust", "-f", str(ROOT / "locustfiles" / f"{cell.scenario}.py"), "--headless"]
        # Absolute: the load process runs in the checkout, wherever we were started.
        prompts = self.prompts.absolute() if isinstance(self.prompts, Path) else self.prompts
        argv += ["--host", self.host, "--prompts", str(prompts), "--capture-dir", str(self.folder.path.absolute())]
        argv += ["--engine", self.engine, "--cell", cell.label, "--round", str(self.round), "--seed", str(self.seed)]
        argv += ["--requests", str(cell.requests or 0), "--warmup", str(cell.warmup)]
        argv += ["--max-tokens", str(cell.max_tokens), "--samples", str(cell.samples)]
        argv += ["--request-extras", json.dumps(self.request_extras)]
        argv += ["--request-timeout", str(cell.request_timeout_s), "--silence-timeout", str(cell.silence_timeout_s)]
        argv += ["--model", self.model] if self.model else []
        argv += ["--duration", str(cell.duration_s)] if cell.duration_s else []
        argv += ["--users", str(cell.users)] if cell.users else []
        argv += ["--fixed-length"] if cell.fixed_length else []
        argv += ["--append"] if self.append else []
        for name, value in cell.options.items():
            flag = f"--{name.replace('_', '-')}"
            argv += [flag] if value is True else [] if value is False else [flag, str(value)]
        return argv


@dataclass(frozen=True, slots=True)
class LoadResult:
    """How a cell ended."""

    exit_code: int
    complete: bool
    last_line: str
    """What its log says last, for a one-line error."""
    engine_died: bool


def run_load(load: Load, *, engine_alive: Callable[[], bool], on_tick: Callable[[], None]) -> LoadResult:
    """Run one cell to its end, calling `on_tick` about ten times a second.

    The load process is stopped (SIGTERM, then SIGKILL) when the engine dies or when the caller is interrupted; what it
    had written stays. Records that ended with the engine are marked `engine_gone`.
    """
    load.folder.path.mkdir(parents=True, exist_ok=True)
    log_path = load.folder.path / "load.log"
    died_ns: int | None = None
    with log_path.open("wb") as log, pinned(load.cell.cores):
        process = subprocess.Popen(  # its own group: a Ctrl-C at the terminal must reach it only through us
            load.argv(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT, start_new_session=True, env=_env()
        )
    try:
        while process.poll() is None:
            if not engine_alive():
                died_ns = time.monotonic_ns()
                break
            on_tick()
            time.sleep(0.1)
    finally:
        _stop(process)
    if died_ns is None and not engine_alive():
        died_ns = time.monotonic_ns()
    if died_ns is not None:
        mark_engine_gone(load.folder)
    return LoadResult(process.returncode, load.folder.complete, last_line(log_path), died_ns is not None)


def _env() -> dict[str, str]:
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH")]))
    env["PYTHONUNBUFFERED"] = "1"
    # The load process ends when this one does, also after a SIGKILL.
    env["ENGINEBENCH_DRIVER_PID"] = str(os.getpid())
    return env


def _stop(process: subprocess.Popen[bytes]) -> None:
    for sign, grace in ((signal.SIGTERM, STOP_GRACE_S), (signal.SIGKILL, 5.0)):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, sign)
            process.wait(grace)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def last_line(path: Path) -> str:
    """The last line of a log that says anything, without this tool's name, for a one-line error."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"no log at {path}"
    told = next((line.strip() for line in reversed(lines) if line.strip()), f"{path} is empty")
    return told.removeprefix("enginebench: ")
