"""What the benchmarks of the load client share: a pacing server on one core, a client on another, and what that cost.

Figures of two runs are never compared: a benchmark interleaves its clients, and gives medians and ratios of rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import requests

from driver.run.pinning import pinned

ROOT = Path(__file__).resolve().parents[1]


def cores() -> tuple[str | None, str | None]:
    """The server's core and the client's; neither is pinned where there is only one."""
    found = sorted(os.sched_getaffinity(0))
    return (str(found[0]), str(found[1])) if len(found) > 1 else (None, None)


class PacingServer:
    """The pacing server as a process of its own, for the length of a `with`."""

    def __init__(self, **schedule: float | str | bool) -> None:
        self._argv = [sys.executable, "-m", "engines.pacing_server", "--stamps"]
        for name, value in schedule.items():
            flag = f"--{name.replace('_', '-')}"
            self._argv += [flag] if value is True else [] if value is False else [flag, str(value)]
        self._http = requests.Session()
        self._http.trust_env = False
        self.url = ""

    def __enter__(self) -> PacingServer:
        with pinned(cores()[0]):
            self._process = subprocess.Popen(self._argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("listening on "):
            raise SystemExit("the pacing server did not start")
        self.url = line.removeprefix("listening on ").strip()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def report(self) -> dict[str, Any]:
        """What happened to each request since the last report."""
        answer = self._http.get(f"{self.url}/requests", timeout=60)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found


@dataclass(frozen=True)
class Ran:
    """One life of a client process and its children. `cpu_s` and `rss_mib` (most at once) are those of the family."""

    code: int
    started_ns: int
    wall_s: float
    cpu_s: float
    rss_mib: float
    output: str


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    timeout_s: float = 300,
    watch: bool = True,
) -> Ran:
    """Run a client on its core to its end, with its family's CPU time (of wait4) and memory (sampled)."""
    path = {"PYTHONPATH": str(ROOT)} if cwd == ROOT else {}
    with pinned(cores()[1]):
        started = time.monotonic_ns()
        process = subprocess.Popen(
            list(argv), cwd=cwd, env={**os.environ, **path, **(env or {})}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
    assert process.stdout is not None
    most = [0.0]
    over = threading.Event()
    watcher = threading.Thread(target=_watch_memory, args=(process.pid, most, over), daemon=True)
    killer = threading.Timer(timeout_s, lambda: os.killpg(process.pid, 9))
    killer.daemon = True
    killer.start()
    if watch:
        watcher.start()
    with process.stdout:
        output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    killer.cancel()
    over.set()
    wall = (time.monotonic_ns() - started) / 1e9
    # Only where nothing was sampled: ru_maxrss of a child counts the parent's pages at the fork too.
    rss = most[0] or usage.ru_maxrss / 1024
    return Ran(process.returncode, started, wall, usage.ru_utime + usage.ru_stime, rss, output)


def _watch_memory(pid: int, most: list[float], over: threading.Event) -> None:
    while not over.wait(0.3):
        with contextlib.suppress(psutil.Error):
            family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
            total = 0.0
            for one in family:
                with contextlib.suppress(psutil.Error):
                    total += one.memory_info().rss / 2**20
            most[0] = max(most[0], total)


# -- output ---------------------------------------------------------------------------------------------------------


def parser(description: str | None) -> argparse.ArgumentParser:
    """A parser with what all have in common."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--rounds", type=int, default=5, help="interleaved; medians are given")
    made.add_argument("--json", type=Path, help="write the figures there too")
    return made


def median(values: Sequence[float]) -> float:
    """The median of what is known; NaN of nothing."""
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else float("nan")


def machine() -> dict[str, Any]:
    """Where this is taken: without it a figure means nothing."""
    model = platform.processor()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "kernel": platform.release(),
    }


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table, ready for docs/."""
    print(f"\n{title}\n")
    print(f"| {' | '.join(columns)} |")
    print(f"| {' | '.join(['---'] * len(columns))} |")
    for row in rows:
        print(f"| {' | '.join(_cell(value) for value in row)} |")


def _cell(value: object) -> str:
    if isinstance(value, float):
        if value != value:
            return "-"
        return f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
    return "-" if value is None else str(value)


def finish(path: Path | None, figures: Mapping[str, Any]) -> None:
    """Print the machine, and write the JSON where it was asked for."""
    host = machine()
    print("\n" + ", ".join(f"{name} {value}" for name, value in host.items()))
    if path is not None:
        path.write_text(json.dumps({"machine": host, **figures}, indent=2, default=str) + "\n", encoding="utf-8")


@contextlib.contextmanager
def progress(words: str) -> Iterator[None]:
    """Say on stderr what is going on."""
    print(f"{words} ...", file=sys.stderr, flush=True)
    yield
