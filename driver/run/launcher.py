"""Starts Locust in its own process: headless for one cell of a run, or with its web UI for `explore`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from driver.profile.cell_options import DRAIN_TIMEOUT_S, flags
from driver.profile.read import Cell
from driver.run.engine_deaths import mark_engine_gone
from driver.run.pinning import pinned
from records import CellFolder, read_json, set_aside
from records.endpoint import CHAT, MAX_TOKENS_FIELDS
from records.exit_codes import ExitCode
from records.headers import HANDED
from records.objectives import objectives_text
from records.redaction import KNOWN_SECRETS, known_secrets, scrub_file

ROOT = Path(__file__).resolve().parents[2]
STOP_GRACE_S = 5.0
"""Seconds that the load process may take to write its last files after the drain."""
DEATH_LAG_S = 1.0
"""Seconds for which an engine may still look alive after its end."""


@dataclass(frozen=True, slots=True)
class Locust:
    """One Locust process. `options` has all its options; a value of None, False or "" leaves the option out."""

    scenario: str
    options: Mapping[str, Any]
    request_extras: Mapping[str, Any]
    """Merged into each request last. They may contain secrets, so they are passed in the environment and not in argv,
    which other users can read."""
    log: Path
    cores: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers of each request; they are passed in the environment too."""

    @property
    def stop_grace_s(self) -> float:
        """Seconds from SIGTERM to SIGKILL: the drain, and the time to write the last files."""
        return float(self.options.get("drain_timeout") or DRAIN_TIMEOUT_S) + STOP_GRACE_S

    def argv(self) -> list[str]:
        """The command line, which also works when typed by hand."""
        file = ROOT / "locustfiles" / f"{self.scenario}.py"
        given = {name: value for name, value in self.options.items() if value is not None and value != ""}
        return [sys.executable, "-m", "locust", "-f", str(file), *flags(given)]

    def env(self) -> dict[str, str]:
        """The environment: the driver's own, and the values that must not be on the command line."""
        env = dict(os.environ)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH")]))
        env["PYTHONUNBUFFERED"] = "1"
        env["ENGINEBENCH_REQUEST_EXTRAS"] = json.dumps(self.request_extras)
        env[HANDED] = json.dumps(dict(self.headers))
        env[KNOWN_SECRETS] = json.dumps(known_secrets())
        # The load process ends when this process ends, even by SIGKILL.
        env["ENGINEBENCH_DRIVER_PID"] = str(os.getpid())
        return env

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run the process during the block; then stop it by SIGTERM and, after the drain, by SIGKILL."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log, pinned(self.cores):
            process = subprocess.Popen(
                self.argv(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=self.env(),
                # Its own process group: a Ctrl-C must reach it only through the driver, while the engine still runs.
                start_new_session=True,
            )
        try:
            yield process
        finally:
            _stop(process, self.stop_grace_s)
            scrub_file(self.log)


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one cell."""

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
    headers: Mapping[str, str] = field(default_factory=dict)
    endpoint: str = CHAT
    max_tokens_field: str = MAX_TOKENS_FIELDS[0]
    objectives: Mapping[str, float | None] = field(default_factory=dict)
    """The profile's latency objectives, in ms."""
    append: bool = False
    keep_raw: bool = False
    """Whether to keep the bytes of failed requests."""

    def locust(self) -> Locust:
        """The Locust process of this load: the only place where a cell's keys become options."""
        cell = self.cell
        options = {
            "headless": True,
            "host": self.host,
            "endpoint": self.endpoint,
            "model": self.model,
            # Absolute, because the load process runs in the checkout.
            "prompts": self.prompts.absolute() if isinstance(self.prompts, Path) else self.prompts,
            "capture_dir": self.folder.path.absolute(),
            "engine": self.engine,
            "cell": cell.label,
            "workload": cell.workload_name,
            "round": self.round,
            "seed": self.seed,
            "requests": cell.requests or 0,
            "conversations": cell.conversations or 0,
            "duration": cell.duration_s,
            "warmup": cell.warmup,
            "samples": cell.samples,
            "max_tokens": cell.max_tokens or 0,
            "max_tokens_field": self.max_tokens_field,
            "fixed_length": cell.fixed_length,
            "users": cell.users,
            "request_timeout": cell.request_timeout_s,
            "silence_timeout": cell.silence_timeout_s,
            "append": self.append,
            "keep_raw": self.keep_raw,
        }
        if cell.searches_capacity:
            options["objectives"] = objectives_text(self.objectives)
        log = self.folder.path / "load.log"
        return Locust(cell.scenario, options | cell.options, self.request_extras, log, cell.cores, self.headers)


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of the load of a cell."""

    exit_code: int
    complete: bool
    why: str
    """Why the capture is incomplete; empty if it is complete."""
    engine_died: bool


def run_load(load: Load, *, engine_alive: Callable[[], bool], on_tick: Callable[[], None]) -> LoadResult:
    """Run one cell to its end, calling `on_tick` about ten times a second.

    The load process is stopped when the engine dies or when the caller is interrupted; its records stay. Requests that
    ended with the engine are marked `engine_gone`.
    """
    locust = load.locust()
    # A resumed cell gets a new log.
    set_aside(locust.log)
    died = False
    with locust.running() as process:
        while process.poll() is None and not (died := not engine_alive()):
            on_tick()
            time.sleep(0.1)
    code = process.returncode
    # Requests that failed may be the first sign of a death, before the engine's supervisor reports it.
    deadline = time.monotonic() + (DEATH_LAG_S if code else 0.0)
    while not (died := died or not engine_alive()) and time.monotonic() < deadline:
        time.sleep(0.05)
    if died:
        mark_engine_gone(load.folder)
    return LoadResult(code, load.folder.complete, _why_incomplete(load.folder, code, locust.log), died)


def _why_incomplete(folder: CellFolder, code: int, log: Path) -> str:
    """The load's own reason; without one, its signal or the last error of its log."""
    if code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    if code == ExitCode.USAGE:
        # scenario.json, if any, is from an earlier attempt.
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


def _stop(process: subprocess.Popen[bytes], grace_s: float) -> None:
    for sign, grace in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 5.0)):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, sign)
            process.wait(grace)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def last_line(path: Path) -> str:
    """The last line of a log that is not blank, without this tool's name, for a one-line error."""
    text = next((line.strip() for line in reversed(_lines(path)) if line.strip()), f"nothing in {path}")
    return text.removeprefix("enginebench: ")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
