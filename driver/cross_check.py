"""Cross-checks grades with math-verify, if it is installed. It only lists disagreements; the grades do not change.

math-verify can hang, so it runs in its own process with a hard deadline per answer. A process that misses the deadline
is killed, and the next answer gets a new process.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scoring.answers.extract import answer_part

PYTHON_ENV = "ENGINEBENCH_CROSS_CHECK_PYTHON"
"""Environment variable: the Python interpreter with math-verify, if it is not the present one."""

_WORKER = Path(__file__).with_name("math_verify_worker.py")
_START_S = 60.0
_ABSENT = (
    "cross-check: math-verify is not installed, so nothing was cross-checked; install it (pip install math-verify),"
    f" or name the Python that has it in {PYTHON_ENV}"
)


@dataclass(frozen=True, slots=True)
class Graded:
    """A graded answer; `name` identifies it in a disagreement."""

    name: str
    gold: str
    completion: str
    correct: bool
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """The result. `note` is one line if not all answers could be checked."""

    checked: int
    disagreements: tuple[str, ...]
    unchecked: int
    note: str | None = None


def cross_check(
    graded: Iterable[Graded], *, seconds_each: float = 5.0, seconds_all: float = 600.0, python: str | None = None
) -> CrossCheck:
    """Ask math-verify about each answer.

    Args:
        graded: the answers to check.
        seconds_each: hard deadline per answer; an answer that misses it is left unchecked.
        seconds_all: after this many seconds the remaining answers are left unchecked.
        python: interpreter with math-verify; default PYTHON_ENV, else the present one.
    """
    graded = list(graded)
    python = python or os.environ.get(PYTHON_ENV) or sys.executable
    disagreements: list[str] = []
    checked = 0
    end = time.monotonic() + seconds_all
    worker: _Worker | None = None
    try:
        for answer in graded:
            if time.monotonic() >= end:
                break
            if worker is None:
                worker = _Worker(python)
                if worker.reply(_START_S) != "ready":
                    return CrossCheck(checked, tuple(disagreements), len(graded) - checked, _ABSENT)
            # If the model only thought, math-verify gets an empty answer, too.
            worker.send({"gold": answer.gold, "completion": answer_part(answer.completion) or ""})
            verdict = worker.reply(seconds_each)
            if not isinstance(verdict, bool):
                if verdict is _LATE:
                    worker.kill()
                    worker = None
                continue
            checked += 1
            if verdict != answer.correct:
                words = {True: "right", False: "wrong"}
                disagreements.append(
                    f"{answer.name}: {words[answer.correct]} here (answer {answer.answer}, gold {answer.gold}),"
                    f" {words[verdict]} to math-verify"
                )
    finally:
        if worker is not None:
            worker.kill()
    unchecked = len(graded) - checked
    note = (
        f"cross-check: {unchecked} of {len(graded)} answers left unchecked (no verdict in time)" if unchecked else None
    )
    return CrossCheck(checked, tuple(disagreements), unchecked, note)


_LATE = object()


class _Worker:
    """One math-verify process: a line of JSON per request and per reply."""

    def __init__(self, python: str) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        try:
            self._process = subprocess.Popen(
                [python, str(_WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            return  # no such Python: treated like a missing package

    def send(self, row: dict[str, Any]) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(row).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            self.kill()  # it died; reply() returns _LATE

    def reply(self, seconds: float) -> Any:
        """The next reply; `_LATE` if none comes in time or the process is gone."""
        if self._process is None or self._process.stdout is None:
            return _LATE
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(0.0, end - time.monotonic())):
                    return _LATE
                if not (more := os.read(self._process.stdout.fileno(), 65536)):
                    return _LATE
                self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            return json.loads(line)
        except ValueError:
            return None

    def kill(self) -> None:
        """Kill the process."""
        if self._process is None:
            return
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._process.wait()
        self._process = None
