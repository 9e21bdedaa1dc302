"""`run` with a capacity search, the completions endpoint, headers and cancelled requests, on two pacing servers."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from driver.profile.read import ProfileError, parse_profile
from records import read_json
from tests.driver.bench import Bench, records, until
from tests.driver.test_profile import GOOD

PROFILE = """
name = "p"
baseline = "six"
rounds = 1
max_seq_len = 4096
objectives = {{ ttft_ms = 110 }}
endpoint = "completions"
[[engines]]
name = "six"
kind = "pacing"
options = {{ ttft_ms = 60.0, interval_ms = 10.0, slots = 6 }}
headers = {{ X-Api-Key = "ENV:GATEWAY_KEY" }}
[[cells]]
scenario = "capacity"
workload = "perf-short"
max_tokens = 5
fixed_length = true
options = {{ start = 4, end = 10, level_cap = 300 }}
[[cells]]
name = "concurrent_4.plain"
scenario = "concurrent_4"
workload = "perf-short"
requests = 12
max_tokens = 12
[[cells]]
name = "concurrent_4.cancel"
scenario = "concurrent_4"
workload = "perf-short"
requests = 12
max_tokens = 12
options = {{ cancel_share = 0.5, cancel_after_tokens = 3 }}
"""
CELL = "capacity.perf-short"


@pytest.mark.engines
def test_a_search_that_was_killed_begins_again_and_the_run_ends_with_its_bracket(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    run = ["run", bench.profile(PROFILE), "--run-id", "r"]
    folder = bench.folder().round("six", 1)
    process = bench.start(*run, GATEWAY_KEY="mellon-and-more")
    assert until(lambda: len(records(folder.cell(CELL))) > 30)
    process.send_signal(signal.SIGKILL)
    bench.finish(process)
    cut = len(records(folder.cell(CELL)))
    done = bench.finish(bench.start(*run, GATEWAY_KEY="mellon-and-more"))
    # 3: on a busy host the client's own delays may void it.
    assert done.code in (0, 3), done.stderr[-2000:]
    assert "level 4 passes" in done.stderr
    # A broken search cannot be glued: the records of the first are kept aside.
    [aside] = folder.cell(CELL).path.glob("requests.partial-1.jsonl")
    assert len(aside.read_text().splitlines()) >= cut > 30
    [comparison] = [read_json(path) for path in bench.folder().path.glob("comparison-*.json")]
    [row] = comparison["capacity"]
    assert row["complete"] and row["passes"] in (5, 6) and row["objectives"] == {"ttft_ms": 110.0}
    assert [each["metric"] for each in comparison["performance"] if each["cell"] == CELL] == ["capacity_users"]
    told = {each["metric"]: each for each in comparison["cancellation"]}
    assert told["tpot_ms_p50"]["twin"] == "concurrent_4.plain"
    assert 0 < told["tpot_ms_p50"]["cancelled"] < 12
    asked = read_json(folder.cell("concurrent_4.cancel").scenario)["asked"]
    assert (asked["endpoint"], asked["headers"]) == ("completions", {"X-Api-Key": "ENV:GATEWAY_KEY"})
    assert read_json(folder.engine_json)["probe"]["endpoint"] == "completions"
    written = [path for path in bench.out.rglob("*") if path.is_file()]
    assert not [path for path in written if b"mellon-and-more" in path.read_bytes()]


@pytest.mark.parametrize(
    ("cell", "more", "why"),
    [
        ({}, {}, "objectives: capacity.arithmetic needs at least one"),
        ({"requests": 5}, {"objectives": {"ttft_ms": 5}}, "requests: capacity measures each level"),
        ({"options": {"step": 0.5}}, {"objectives": {"ttft_ms": 5}}, "whole numbers of users"),
        ({"options": {"steps": "1,2"}}, {"objectives": {"ttft_ms": 5}}, "--steps: only sweep uses it"),
    ],
)
def test_a_profile_that_makes_no_search_is_refused(cell: dict[str, Any], more: dict[str, Any], why: str) -> None:
    cells = [{"scenario": "capacity", "workload": "arithmetic", "max_tokens": 5, **cell}]
    with pytest.raises(ProfileError, match=why):
        parse_profile({**GOOD, "cells": cells, **more}, "p.toml")


def test_a_workload_may_have_an_endpoint_of_its_own() -> None:
    profile = parse_profile({**GOOD, "workloads": {"arithmetic": {"endpoint": "completions"}}}, "p.toml")
    endpoints = {cell.workload: profile.endpoint_of(cell) for cell in profile.cells}
    assert endpoints["arithmetic"] == "completions"
    assert profile.endpoint == "chat"
