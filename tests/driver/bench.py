"""run_bench.py as a user types it, in a folder of its own; whatever it starts can be found again by a mark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from engines.process.port import free_port, port_is_free
from records import CellFolder, Record, RunFolder, read_records
from tests.engines.helpers import ROOT, STANDIN, model_folder

MARK = "ENGINEBENCH_TEST_MARK"
PERF, QUALITY = "concurrent_4.perf-short", "single.arithmetic"

PROFILE = """
name = "p"
baseline = "a"
rounds = 1
max_seq_len = 512
{more}
[[engines]]
name = "a"
kind = "xserv"
model = "{model}"
binary = "{binary}"
port = {port}
slots = 4
threads = 1
ready_timeout_s = 20
env = {{ STANDIN_TOKEN_MS = "{token_ms}" }}
[[cells]]
scenario = "concurrent_4"
workload = "perf-short"
requests = 12
max_tokens = 8
[[cells]]
scenario = "single"
workload = "arithmetic"
max_tokens = 16
[workloads.arithmetic]
first = 6
"""
"""A perf cell and a quality cell on the stand-in for xserv."""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def line(self) -> str:
        """The one line that says what was wrong; progress lines begin with their time."""
        assert "Traceback" not in self.stderr, self.stderr
        said = [line for line in self.stderr.splitlines() if not re.match(r"\[\d\d:\d\d\] ", line)]
        assert len(said) == 1 and said[0].startswith("enginebench: "), self.stderr
        return said[0]


class Bench:
    """The command line in `path`, which is also its working directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.out = path / "bench-out"
        self.port = free_port()
        self._mark = uuid.uuid4().hex
        self._env = {**os.environ, MARK: self._mark, "XDG_STATE_HOME": str(path / "state")}

    def profile(self, text: str = PROFILE, **values: Any) -> Path:
        """Write p.toml; `values` fill or replace the template's own."""
        model = model_folder(self.path / "model")
        own = {"model": model, "binary": STANDIN, "port": self.port, "token_ms": 2, "more": ""}
        path = self.path / "p.toml"
        path.write_text(text.format(**{**own, **values}))
        return path

    def start(self, *arguments: object, **env: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(ROOT / "run_bench.py"), *map(str, arguments)]
        return subprocess.Popen(
            command,
            cwd=self.path,
            env={**self._env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Where the tests themselves run in the background of a script, SIGINT is ignored, and stays so in children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,
        )

    def finish(self, process: subprocess.Popen[str], timeout_s: float = 120) -> Done:
        """Wait for the end; then nothing that it started lives, and its port is free."""
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"it did not end:\n{process.communicate()[1][-3000:]}") from None
        assert until(lambda: not self.living(), 5), [each.cmdline() for each in self.living()]
        assert port_is_free("127.0.0.1", self.port)
        return Done(process.returncode, out, err)

    def run(self, *arguments: object, **env: str) -> Done:
        return self.finish(self.start(*arguments, **env))

    def living(self, word: str = "") -> list[psutil.Process]:
        """What the commands have started, directly or not, and that lives; with `word` in its command line."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found += [process] if word in " ".join(process.cmdline()) else []
            except (psutil.Error, OSError):
                continue
        return [process for process in found if process.pid != os.getpid()]

    def folder(self, run_id: str = "r") -> RunFolder:
        return RunFolder(self.out / run_id)

    def cell(self, name: str, run_id: str = "r") -> CellFolder:
        return self.folder(run_id).round("a", 1).cell(name)


def until(condition: Callable[[], object], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def records(folder: CellFolder) -> list[Record]:
    return list(read_records(folder.requests)) if folder.requests.exists() else []


def answered(folder: CellFolder) -> list[tuple[str, int]]:
    """(prompt, sample) of each measured request that brought an answer, in order."""
    return sorted((record.prompt_id, record.sample) for record in records(folder) if record.measured and record.ok)


def require_whole(bench: Bench, run_id: str = "r") -> None:
    """Every cell complete, and nothing answered twice."""
    for name, wanted in ((PERF, 12), (QUALITY, 6)):
        folder = bench.cell(name, run_id)
        assert folder.complete
        assert len(answered(folder)) == len(set(answered(folder))) == wanted
