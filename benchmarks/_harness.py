"""Runs a client against the pacing server, server on one core and client on another, and takes its cost from outside.

The same for every client, ours and others': CPU time of the whole process tree from the moment at which the server had
read its first request to the end of the process, so decoding, writing and summing up are counted, and start-up is not;
start-up is from the start of the process to that moment. All clocks are one host's monotonic clock.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil

from benchmarks._seen import read_seen
from driver.calibration import Accuracy, Seen, accuracy
from driver.pinning import pinned
from records import read_json, read_records

ROOT = Path(__file__).resolve().parent.parent
SAMPLE_S = 0.02


def cores() -> tuple[str | None, str | None]:
    """A core for the server and one for the client; none are pinned where there is only one."""
    free = sorted(os.sched_getaffinity(0))
    return (str(free[0]), str(free[1])) if len(free) > 1 else (None, None)


class Server:
    """A pacing server in a process of its own; `options` are its flags without the dashes."""

    def __init__(self, **options: Any) -> None:
        argv = [sys.executable, "-m", "engines._pacing_server", "--port", "0"]
        for name, value in options.items():
            flag = f"--{name.replace('_', '-')}"
            argv += [flag] if value is True else [] if value is False else [flag, str(value)]
        with pinned(cores()[0]):
            self._process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if "http://" not in line:
            raise RuntimeError(f"the pacing server did not start: exit code {self._process.wait()}")
        self.url = line.split()[-1]
        self.port = int(self.url.rpartition(":")[2])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(10)

    def report(self) -> dict[str, Any]:
        """What the server did since the last time it was asked."""
        with urllib.request.urlopen(f"{self.url}/requests", timeout=30) as response:
            found: dict[str, Any] = json.load(response)
        return found


@dataclass(slots=True)
class Ran:
    """One run of one client. `accuracy` is None where the client's requests can't be matched with the server's."""

    client: str
    exit_code: int
    chunks: int
    startup_s: float | None
    cpu_us_per_chunk: float | None
    rss_mib: float
    accuracy: Accuracy | None
    output: str
    report: dict[str, Any] = field(repr=False)
    folder: Path | None = None
    samples: list[tuple[int, float, float]] = field(default_factory=list, repr=False)
    """(monotonic ns, CPU seconds, RSS MiB) of the process tree."""


@dataclass(frozen=True, slots=True)
class Client:
    """How to start a client, and how to read what it saw; `read` is None for those that keep no requests."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    read: Callable[[], list[Seen]] | None = None
    folder: Path | None = None


class _Watch(threading.Thread):
    """Samples CPU and memory of a process and its children."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.samples: list[tuple[int, float, float]] = []
        self._process, self._over = psutil.Process(pid), threading.Event()

    def run(self) -> None:
        children: list[psutil.Process] = []
        ticks = 0
        while not self._over.wait(SAMPLE_S):
            cpu = rss = 0.0
            with contextlib.suppress(psutil.Error):
                if ticks % 10 == 0:
                    children = self._process.children(recursive=True)
                ticks += 1
                for process in (self._process, *children):
                    with contextlib.suppress(psutil.Error), process.oneshot():
                        times = process.cpu_times()
                        cpu += times.user + times.system
                        if process is self._process:
                            cpu += times.children_user + times.children_system
                        rss += process.memory_info().rss / 2**20
                self.samples.append((time.monotonic_ns(), cpu, rss))

    def stop(self) -> None:
        self._over.set()
        self.join()


def run_client(client: Client, server: Server, *, timeout_s: float = 300.0) -> Ran:
    """Run a client to its end, and hold what it saw against what the server did."""
    server.report()
    env = {**os.environ, "PYTHONPATH": str(ROOT), **client.env}
    with tempfile.TemporaryFile("w+") as log:
        started = time.monotonic_ns()
        with pinned(cores()[1]):
            process = subprocess.Popen(
                client.argv, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        watch = _Watch(process.pid)
        watch.start()
        killer = threading.Timer(timeout_s, process.kill)
        killer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            killer.cancel()
            watch.stop()
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        output = log.read()
    report = server.report()
    rows = report["requests"]
    chunks = sum(row["chunks"] for row in rows)
    first = min((row["received_ns"] for row in rows), default=None)
    cost = startup = None
    if first is not None:
        before = max((cpu for stamp, cpu, _ in watch.samples if stamp <= first), default=0.0)
        cost = (usage.ru_utime + usage.ru_stime - before) * 1e6 / chunks if chunks else None
        startup = (first - started) / 1e9
    seen = client.read() if client.read and process.returncode in (0, 1) else []
    return Ran(
        client=client.name,
        exit_code=process.returncode,
        chunks=chunks,
        startup_s=startup,
        cpu_us_per_chunk=cost,
        rss_mib=max((rss for _, _, rss in watch.samples), default=0.0),
        accuracy=accuracy(seen, rows) if seen else None,
        output=output,
        report=report,
        folder=client.folder,
        samples=watch.samples,
    )


# -- the clients ----------------------------------------------------------------------------------------------------


def ours(
    server: Server, scratch: Path, *, streams: int, requests: int, tokens: int, options: Sequence[str] = ()
) -> Client:
    """The load client of this project, with hooks, records and Locust on."""
    folder = Path(tempfile.mkdtemp(prefix="ours-", dir=scratch))
    argv = [sys.executable, "-m", "locust", "-f", str(ROOT / "locustfiles" / "closed_loop.py"), "--headless"]
    argv += ["-u", str(streams), "--host", server.url, "--requests", str(requests), "--max-tokens", str(tokens)]
    argv += ["--capture-dir", str(folder), "--model", "pacing", *options]
    return Client("ours", argv, read=lambda: records_seen(folder), folder=folder)


def records_seen(folder: Path) -> list[Seen]:
    """What our records say, of the measured requests that were ok."""
    records = read_records(folder / "requests.jsonl")
    return [Seen.of(record) for record in records if record.measured and record.ok]


def scenario(folder: Path) -> dict[str, Any]:
    """The scenario.json of a run of ours."""
    return read_json(folder / "scenario.json")


def floor(server: Server, scratch: Path, *, streams: int, requests: int, tokens: int) -> Client:
    """The bare epoll loop."""
    out = _fresh(scratch, "floor")
    argv = [sys.executable, "-m", "benchmarks._floor", "--port", str(server.port), "--streams", str(streams)]
    argv += ["--requests", str(requests), "--tokens", str(tokens), "--out", str(out)]
    return Client("floor", argv, read=lambda: read_seen(out))


def naive(
    server: Server,
    scratch: Path,
    *,
    kind: str,
    streams: int,
    requests: int,
    tokens: int,
    characters: int = 400,
    model: str = "pacing",
) -> Client:
    """A locustfile as people write it first; `kind` is http or fast."""
    out = _fresh(scratch, f"naive-{kind}")
    argv = [sys.executable, "-m", "locust", "-f", str(ROOT / "benchmarks" / "_naive.py"), "--headless"]
    argv += ["-u", str(streams), "-r", str(streams), "--host", server.url, f"Naive{kind.title()}"]
    env = {"BENCH_SEEN": str(out), "BENCH_LAPS": str(-(-requests // streams)), "BENCH_TOKENS": str(tokens)}
    env |= {"BENCH_CHARACTERS": str(characters), "BENCH_MODEL": model}
    return Client(f"naive {kind}", argv, env=env, read=lambda: read_seen(out))


def _fresh(scratch: Path, name: str) -> Path:
    descriptor, path = tempfile.mkstemp(prefix=f"{name}-", suffix=".jsonl", dir=scratch)
    os.close(descriptor)
    return Path(path)


# -- words ----------------------------------------------------------------------------------------------------------


def median(values: Sequence[float | None]) -> float | None:
    """The median of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def show(value: float | None, digits: int = 2) -> str:
    """A figure for a table."""
    return "-" if value is None else f"{value:.{digits}f}"


def machine() -> str:
    """One line on the host, with how busy it was."""
    model = platform_model()
    return f"{model}, {os.cpu_count()} cores, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}"


def platform_model() -> str:
    """The processor's name."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "unknown processor"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="enginebench-bench-") as path:
        yield Path(path)
