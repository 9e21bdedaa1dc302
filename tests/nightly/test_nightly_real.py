"""A new build of an engine against the old one: llama.cpp as pinned, and the newer one of the wheel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.driver.bench import Bench
from tests.engines.by_hand import built_server
from tests.engines.helpers import smollm2

pytestmark = [pytest.mark.engines, pytest.mark.timeout(3300)]

PROFILE = """
name = "upgrade"
baseline = "old"
rounds = 3
max_seq_len = 512
[gate]
baseline = "run"
# On a busy machine of two cores nothing less would stand out; what is shown is the way, not a figure.
threshold = 0.9
[[engines]]
name = "old"
kind = "llama_cpp"
binary = "{binary}"
model = "{model}"
slots = 1
threads = 1
[[engines]]
name = "new"
kind = "llama_cpp_wheel"
model = "{model}"
slots = 1
threads = 1
[[cells]]
scenario = "single"
workload = "perf-short"
requests = 3
max_tokens = 16
fixed_length = true
"""


def test_two_builds_of_one_night_are_named_and_compared_interleaved(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    profile = bench.profile(PROFILE, binary=built_server(), model=smollm2())
    done = bench.finish(bench.start("nightly", profile, "--json", "--no-confirm"), 1500)
    night = json.loads(done.stdout)
    # 3: with so few requests the audit may find the figures wanting; then the night proves nothing, and says so.
    assert done.code in (0, 3), done.stderr
    listed = json.loads(bench.run("history", "list", "--json").stdout)
    [run] = [run for run in listed if run["kind"] == "nightly"]
    assert run["builds"]["old"] == "b9371" and run["builds"]["new"] != "b9371"
    lives = {
        name: sorted(folder.name for folder in (bench.out / run["run_id"] / name).iterdir()) for name in run["builds"]
    }
    assert lives == {"old": ["r1", "r2", "r3"], "new": ["r1", "r2", "r3"]}
    if done.code == 0:
        assert night["builds"] == [f"old is b9371, new is {run['builds']['new']}"]
        judged = {finding["metric"] for finding in night["findings"] if finding["engine"] == "new"}
        assert judged == {"output_tok_s", "ttft_ms_p50", "tpot_ms_p50"}
