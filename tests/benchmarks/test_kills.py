"""A run killed with SIGKILL keeps its promises; and the benchmark that says so can see a broken one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.kills import is_whole, torn
from tests.driver.bench import PERF, Bench
from tests.engines.helpers import ROOT


@pytest.mark.engines
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent has died")
def test_two_runs_killed_at_random_moments_leave_nothing_and_go_on(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    command = [sys.executable, "benchmarks/kills.py", "--engine", "standin", "--kills", "2"]
    command += ["--within", "8", "--json", str(found)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [is_whole(each) for each in json.loads(found.read_text())["kills"]] == [True, True]


@pytest.mark.parametrize(
    "broken",
    [
        {"processes_left": 1}, {"port_free": False}, {"torn_within": 1}, {"missing": 1}, {"twice": 1}, {"lost": 1},
        {"complete": False}, {"exit_code": 4},
    ],
    ids=str,
)  # fmt: skip
def test_each_broken_promise_is_seen(broken: dict[str, object]) -> None:
    whole = {
        "processes_left": 0, "port_free": True, "torn_within": 0, "missing": 0, "twice": 0, "lost": 0,
        "complete": True, "exit_code": 0,
    }  # fmt: skip
    assert is_whole(whole)
    assert not is_whole(whole | broken)


def test_a_torn_line_is_counted_and_only_at_the_end_forgiven(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    folder = bench.cell(PERF)
    folder.path.mkdir(parents=True)
    folder.requests.write_text('{"a": 1}\n{"a"')
    assert torn(bench, "r") == (1, 1)
    folder.requests.write_text('{"a": 1}\n{"a"\n{"a": 2}\n')
    assert torn(bench, "r") == (1, 0)
