"""The clients that the benchmarks compare, each as one command, and what each has to say afterwards."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from benchmarks._harness import ROOT, PacingServer, Ran, run
from driver.calibration import Accuracy, Seen, accuracy
from records import read_json, read_records


@dataclass(frozen=True)
class Job:
    """So many requests by so many streams, against a server whose schedule is the server's own."""

    port: int
    streams: int
    requests: int
    tokens: int
    folder: Path
    model: str = "pacing"
    timeout_s: float = 300.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True)
class Told:
    """What a client told: requests by outcome; every request where it keeps them, else its own summary in ms."""

    ok: int
    failed: int
    seen: list[Seen] | None = None
    summary: Mapping[str, float] | None = None
    load_cpu_s: float | None = None


class Client(ABC):
    """A client: a command line, and how to read what it left in the job's folder."""

    name: ClassVar[str]
    model_prefix: ClassVar[str] = ""

    def env(self, job: Job) -> dict[str, str]:
        """Environment of the command."""
        return {}

    @abstractmethod
    def argv(self, job: Job) -> list[str]:
        """The command line."""

    @abstractmethod
    def read(self, job: Job, ran: Ran) -> Told:
        """Read the results."""


class Ours(Client):
    """Locust with our scenarios, hooks and records on."""

    name = "ours"

    def __init__(self, *options: str) -> None:
        self._options = options

    def argv(self, job: Job) -> list[str]:
        return [
            sys.executable, "-m", "locust", "-f", str(ROOT / "locustfiles" / "closed_loop.py"), "--headless", "--host",
            job.url, "-u", str(job.streams), "--requests", str(job.requests), "--max-tokens", str(job.tokens),
            "--prompts", "perf-short", "--model", job.model, "--capture-dir", str(job.folder), *self._options,
        ]  # fmt: skip

    def read(self, job: Job, ran: Ran) -> Told:
        path = job.folder / "requests.jsonl"
        records = [r for r in read_records(path) if r.measured] if path.exists() else []
        stamped = [r for r in records if r.ok and r.text[1:19].isdigit()]
        return Told(sum(r.ok for r in records), sum(not r.ok for r in records), [Seen.of(r) for r in stamped])

    def scenario(self, job: Job) -> dict[str, Any]:
        """What the client says of itself."""
        return read_json(job.folder / "scenario.json")


class Floor(Client):
    """The bare epoll loop; `load_cpu_s` is its own, without start-up and output."""

    name = "floor"

    def __init__(self, parser: str = "json") -> None:
        self._parser = parser

    def argv(self, job: Job) -> list[str]:
        out = str(job.folder / "floor.json")
        numbers = [str(job.port), str(job.streams), str(job.requests), str(job.tokens)]
        return [sys.executable, "-m", "benchmarks._floor", "127.0.0.1", *numbers, out, self._parser]

    def read(self, job: Job, ran: Ran) -> Told:
        found = read_json(job.folder / "floor.json")
        seen = [Seen(**row) for row in found["requests"]]
        return Told(len(seen), 0, seen, load_cpu_s=found["cpu_s"])


class FloorOrjson(Floor):
    """The same with a faster JSON parser than the standard library's."""

    name = "floor, orjson"

    def __init__(self) -> None:
        super().__init__("orjson")


class FloorLate(Floor):
    """One that parses nothing while it runs: its lag is what the machine and Python's sockets allow."""

    name = "floor, parsed later"

    def __init__(self) -> None:
        super().__init__("late")


class _Naive(Client):
    file: ClassVar[str]

    def __init__(self, prompt_chars: int = 400) -> None:
        self._prompt_chars = prompt_chars

    def env(self, job: Job) -> dict[str, str]:
        return {
            "NAIVE_OUT": str(job.folder / "naive.json"),
            "NAIVE_REQUESTS": str(job.requests),
            "NAIVE_TOKENS": str(job.tokens),
            "NAIVE_MODEL": job.model,
            "NAIVE_PROMPT_CHARS": str(self._prompt_chars),
        }

    def argv(self, job: Job) -> list[str]:
        return [
            sys.executable, "-m", "locust", "-f", str(ROOT / "benchmarks" / self.file), "--headless", "--host", job.url,
            "-u", str(job.streams), "-r", str(job.streams), "--only-summary",
        ]  # fmt: skip

    def read(self, job: Job, ran: Ran) -> Told:
        path = job.folder / "naive.json"
        if not path.exists():
            return Told(0, 0)
        found = read_json(path)
        rows = found["requests"]
        seen = [Seen(**row) for row in rows if row["stamps"]]
        return Told(len(rows), found["failed"], seen)


class NaiveHttp(_Naive):
    """A naive Locust HttpUser, iter_lines."""

    name = "naive HttpUser, iter_lines"
    file = "_naive_http.py"


class NaiveFast(_Naive):
    """A naive Locust FastHttpUser, iter_lines."""

    name = "naive FastHttpUser, iter_lines"
    file = "_naive_fast.py"


@dataclass(frozen=True)
class Outcome:
    """One run of one client, against the server's log of it."""

    ran: Ran
    told: Told
    accuracy: Accuracy | None
    truth: dict[str, Any]
    start_s: float | None
    """From the start of the process to its first request at the server."""

    @property
    def chunks(self) -> int:
        return sum(row["chunks"] for row in self.truth["requests"])


def measure(client: Client, server: PacingServer, job: Job) -> Outcome:
    """Run a client once."""
    job.folder.mkdir(parents=True, exist_ok=True)
    server.report()
    cwd = ROOT if client.argv(job)[0] == sys.executable else job.folder
    ran = run(client.argv(job), env=client.env(job), cwd=cwd, timeout_s=job.timeout_s)
    truth = server.report()
    told = client.read(job, ran)
    first = min((row["received_ns"] for row in truth["requests"]), default=None)
    start_s = None if first is None else (first - ran.started_ns) / 1e9
    return Outcome(ran, told, accuracy(told.seen, truth["requests"]) if told.seen else None, truth, start_s)


def marginal_cpu_us(client: Client, server: PacingServer, job: Job, full: Outcome) -> float:
    """CPU microseconds a chunk: of a run, less those of a run of the same users with next to no chunks.

    So start-up, shut-down and imports are in no figure; decoding, records, hooks and statistics are in all. NaN where
    the chunks cost less than a fifth of the whole run: what is left of so large a start-up is noise.
    """
    if full.told.load_cpu_s is not None:
        return full.told.load_cpu_s * 1e6 / full.chunks
    little = measure(
        client,
        server,
        replace(job, requests=job.streams, tokens=1, folder=job.folder.with_name(job.folder.name + "-0")),
    )
    cost = full.ran.cpu_s - little.ran.cpu_s
    if cost < full.ran.cpu_s / 5:
        return float("nan")
    return cost * 1e6 / max(1, full.chunks - little.chunks)
