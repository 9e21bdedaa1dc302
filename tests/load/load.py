"""Runs `locust` as a user would, in a process of its own (importing it here would patch the tests' own sockets)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from records import Record, read_json, read_records

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Outcome:
    """How a run came out."""

    code: int
    stderr: str
    folder: Path

    @property
    def records(self) -> list[Record]:
        return list(read_records(self.folder / "requests.jsonl"))

    @property
    def measured(self) -> list[Record]:
        return [record for record in self.records if record.measured]

    @property
    def scenario(self) -> dict[str, Any]:
        return read_json(self.folder / "scenario.json")

    @property
    def kinds(self) -> list[str]:
        return [str(record.error["kind"]) for record in self.records if record.error]


def prompts_file(path: Path, contents: list[str]) -> Path:
    """A user's own prompts, one for each content, named p0, p1, ..."""
    rows = [{"prompt_id": f"p{n}", "prompt": content} for n, content in enumerate(contents)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def start(
    scenario: str, url: str, folder: Path, *options: str, env: Mapping[str, str] | None = None, group: bool = False
) -> subprocess.Popen[str]:
    """Start a headless run; its capture goes to `folder`. With `group` it leads a process group of its own."""
    argv = [sys.executable, "-m", "locust", "-f", str(ROOT / "locustfiles" / f"{scenario}.py"), "--headless"]
    argv += ["--host", url, "--capture-dir", str(folder), *options]
    return subprocess.Popen(
        argv,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
        process_group=0 if group else None,
    )


def finish(process: subprocess.Popen[str], folder: Path, *, timeout_s: float = 60) -> Outcome:
    """Wait for a run to end."""
    try:
        _, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        _, stderr = process.communicate()
        raise AssertionError(f"the load did not end within {timeout_s} s:\n{stderr[-3000:]}") from None
    return Outcome(process.returncode, stderr, folder)


def run(scenario: str, url: str, folder: Path, *options: str, env: Mapping[str, str] | None = None) -> Outcome:
    """Run a scenario to its end."""
    return finish(start(scenario, url, folder, *options, env=env), folder)
