"""What `run` offers around the load, as it is typed in a folder that is not the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from records import RunFolder, read_records
from tests.driver.bench import Bench, Done

PROFILE = """
name = "pace"
baseline = "a"
on_probe_failure = "void"
error_limit = 1.0
[[engines]]
name = "a"
kind = "pacing"
options = {{ ttft_ms = 5, interval_ms = 1, fault = "bad_json" }}
[[cells]]
scenario = "single"
workload = "perf-short"
requests = 3
max_tokens = 5
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bench, Done]:
    bench = Bench(tmp_path_factory.mktemp("run"))
    bench.profile(PROFILE)
    options = ["--out", "deep/er", "--run-id", "r", "--keep-raw", "--junit", "xml/j.xml", "--json"]
    return bench, bench.run("run", "p.toml", *options)


def test_relative_paths_are_those_of_the_folder_it_was_typed_in(done: tuple[Bench, Done]) -> None:
    bench, ended = done
    # The answers are broken frames: requests failed, and a comparison of one engine proves nothing.
    assert ended.code in (1, 3)
    assert (bench.path / "deep/er/r/run.json").exists()
    suites = Xml.parse(bench.path / "xml/j.xml").getroot()
    assert [suite.get("failures") for suite in suites if suite.get("name") == "requests"] == ["1"]
    failed = [row for row in json.loads(ended.stdout)["requests"] if row["status"] == "error"]
    assert [row["error"]["kind"] for row in failed] == ["bad_json"] * 9  # three rounds of three requests
    assert all(row["error"]["message"] for row in failed)


def test_the_bytes_of_failed_requests_are_kept_where_asked(done: tuple[Bench, Done]) -> None:
    cell = RunFolder(done[0].path / "deep/er/r").round("a", 1).cell("single.perf-short")
    failed = [record.id for record in read_records(cell.requests)]
    assert sorted(path.stem for path in (cell.path / "raw").iterdir()) == sorted(failed)
    raw = (cell.path / "raw" / f"{failed[0]}.http").read_bytes()
    assert raw.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'data: {"choices": [{"index"' in raw


def completed(words: str, folder: Path) -> list[str]:
    env = {
        **os.environ,
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        "_ENGINEBENCH_COMPLETE": "bash_complete",
    }
    command = [Path(sys.executable).with_name("enginebench")]
    found = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True).stdout.splitlines()
    return [line.partition(",")[2] for line in found if line.startswith("plain,")]


def test_a_shell_completes_commands_options_profiles_and_runs(done: tuple[Bench, Done]) -> None:
    folder = done[0].path
    (folder / "bench-out").mkdir(exist_ok=True)
    (folder / "bench-out" / "mine").symlink_to(folder / "deep/er/r")
    assert completed("enginebench nig", folder) == ["nightly"]
    assert completed("enginebench run --keep", folder) == ["--keep-raw"]
    assert completed("enginebench run dem", folder) == ["demo"]
    assert completed("enginebench compare m", folder) == ["mine"]
    assert completed("enginebench history tr", folder) == ["trends"]
