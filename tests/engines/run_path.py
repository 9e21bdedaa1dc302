"""A run of the product as a user starts it, and what it left: for tests with real engines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from records import JsonObject
from tests.engines.helpers import ROOT


@dataclass(frozen=True, slots=True)
class Judged:
    """A run that came to its report: exit code, the first line of the Markdown, and the comparison."""

    exit_code: int
    first_line: str
    comparison: JsonObject

    def finding(self, check: str, engine: str, cell: str | None = None) -> tuple[str, str]:
        """(status, evidence) of a row of the audit."""
        rows = self.comparison["audit"]
        row = next(r for r in rows if (r["check"], r["engine"], r["cell"]) == (check, engine, cell))
        return row["status"], row["evidence"]

    def failures(self, engine: str) -> set[str]:
        """The checks that one engine failed."""
        return {r["check"] for r in self.comparison["audit"] if r["engine"] == engine and r["status"] == "fail"}


def start_bench(*arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """`run_bench.py` with these arguments."""
    command = [sys.executable, "run_bench.py", *arguments]
    environment = {**os.environ, **(env or {})}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def bench(*arguments: str, env: dict[str, str] | None = None, codes: tuple[int, ...] = (0,)) -> str:
    """Run a command to its end; returns what it printed on both outputs."""
    with start_bench(*arguments, env=env) as process:
        out, err = process.communicate()
    assert process.returncode in codes, f"exit code {process.returncode}: {(out + err)[-3000:]}"
    return out + err


def judged(folder: Path, exit_code: int) -> Judged:
    """Read what a run left in its folder."""
    newest = max(folder.glob("comparison-*.json"))
    first_line = newest.with_suffix(".md").read_text().splitlines()[0]
    return Judged(exit_code, first_line, json.loads(newest.read_text()))
