"""The web UI over HTTP, with the load in processes of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from records import Record, read_json, read_records
from records.latency_definitions import icl_ms, itl_ms, timing
from tests.load.load import ROOT
from tests.load.web import Web, pacing, web_ui


def truth(records: list[Record]) -> dict[str, list[float]]:
    """The metrics from the records, by their one definition."""
    found: dict[str, list[float]] = {"ttft_ms": [], "tpot_ms": [], "itl_ms": [], "icl_ms": []}
    for r in records:
        if r.measured and r.ok:
            latency = timing(r)
            assert latency.ttft_ms is not None and latency.tpot_ms is not None
            found["ttft_ms"].append(latency.ttft_ms)
            found["tpot_ms"].append(latency.tpot_ms)
            found["itl_ms"] += itl_ms(r) or []
            found["icl_ms"] += icl_ms(r)
    return found


def assert_agrees(live: dict[str, Any], records: list[Record], rel: float) -> None:
    for name, values in truth(records).items():
        shown = live["latency"][name]
        assert shown["n"] == len(values) > 0
        assert shown["exact"]
        for part, needed in ((50, 1), (90, 100), (99, 1000)):
            known = np.percentile(values, part) if shown["requests"] >= needed else None
            assert shown[f"p{part}"] == (known and pytest.approx(known, rel=rel)), f"{name} p{part}"
    good = [r for r in records if r.measured and r.ok]
    tokens = sum(r.completion_tokens or 0 for r in good)
    assert live["counts"]["tokens"] == tokens
    span = (max(r.end_ns for r in good) - min(r.sent_ns or 0 for r in good)) / 1e9
    assert live["tokens_per_s"] == pytest.approx(tokens / span, rel=0.01)
    assert sum(live["series"]["tokens"]) == pytest.approx(tokens, rel=0.01)


def test_the_figures_are_those_of_the_records_and_a_second_test_starts_from_nothing(tmp_path: Path) -> None:
    with pacing("--ttft-ms", "30", "--interval-ms", "5") as host, web_ui(tmp_path, host) as web:
        assert web.get("/enginebench/requests.jsonl").status_code == 404
        web.start(requests="30", max_tokens="20", warmup="0")
        live = web.until(lambda live: live["test"] == 1 and live["state"] == "stopped")
        first = web.records
        assert len(first) == 30
        assert_agrees(live, first, rel=1e-9)
        assert max(n or 0 for n in live["series"]["in_flight"] or [0]) <= 2
        assert live["clients"]["local"]["cpu_share"] is not None
        downloaded = web.get("/enginebench/requests.jsonl")
        assert downloaded.content == (web.capture / "requests.jsonl").read_bytes()
        assert "attachment" in downloaded.headers["Content-Disposition"]
        summary = web.summary()
        assert summary["scenario_json"]["complete"] is True
        assert summary["counts"]["ok"] == 30

        web.start(requests="10000", max_tokens="20")
        web.until(lambda live: live["test"] == 2 and live["counts"]["ok"] >= 5 and live["in_flight"])
        web.stop()
        live = web.until(lambda live: live["state"] == "stopped")
        assert_agrees(live, web.records, rel=1e-9)
        assert len(web.records) < 1000
        assert len(list(read_records(web.capture / "requests.partial-1.jsonl"))) == 30


@pytest.mark.engines
def test_two_workers_show_what_their_records_say_behind_a_login_and_across_stops(tmp_path: Path) -> None:
    with (
        pacing("--ttft-ms", "40", "--interval-ms", "5") as host,
        web_ui(tmp_path, host, workers=2, login=True) as web,
    ):
        # One that ends by itself, one that is stopped in the middle, one after it.
        for test, asked in ((1, 40), (2, 100_000), (3, 40)):
            web.start(requests=str(asked), max_tokens="30", user_count="4")
            web.until(lambda live, test=test: live["test"] == test and live["counts"]["ok"] >= 30)  # type: ignore[misc]
            if test == 2:
                web.until(lambda live: (live["in_flight"] or 0) > 0)
                web.stop()
            # Locust's state changes before the master has written the test's end.
            web.until(lambda live: (web.summary()["scenario_json"] or {}).get("ended_utc"))
            live = web.until(lambda live: live["state"] == "stopped")
            assert len(live["clients"]) == 2
            records = web.records
            assert len({record.worker for record in records}) == 2
            assert len(records) < 5_000
            assert_agrees(live, records, rel=1e-9)
            assert web.get("/enginebench/requests.jsonl").content == (web.capture / "requests.jsonl").read_bytes()
            written = web.summary()["scenario_json"]
            assert written["complete"] is (test != 2), written


def test_a_mistake_in_the_form_leaves_page_and_workers_for_another_try(tmp_path: Path) -> None:
    with pacing() as host, web_ui(tmp_path, host, workers=2) as web:
        web.start(requests="4", max_tokens="8", user_count="1")
        web.until(lambda live: "1 user for 2 workers" in (live["problem"] or ""))
        web.start(requests="4", max_tokens="8", user_count="2")
        web.until(lambda live: (web.summary()["scenario_json"] or {}).get("ended_utc"))
        assert len(web.records) == 4


@pytest.mark.engines
@pytest.mark.parametrize("workers", [0, 2])
def test_a_capacity_search_shows_its_levels_as_they_are_judged(tmp_path: Path, workers: int) -> None:
    options = ["--objectives", "ttft_ms=200", "--start", "4", "--end", "8", "--level-cap", "300"]
    server = pacing("--ttft-ms", "60", "--interval-ms", "20", "--slots", "6")
    with server as host, web_ui(tmp_path, host, *options, workers=workers, scenario="capacity") as web:
        # An answer of 10 tokens takes 240 ms, and the seventh user waits for all of that.
        web.start(max_tokens="10", user_count="8")
        live = web.until(lambda live: live["capacity"] and live["capacity"]["passes"])
        assert live["capacity"]["levels"][0]["verdict"] == "passes"
        assert live["capacity"]["by"] == "users"
        web.until(lambda live: (web.summary()["scenario_json"] or {}).get("ended_utc"))
        found = web.summary()["scenario_json"]["capacity"]
        assert found["complete"], found
        assert found["passes"] in (5, 6)
        assert web.live()["capacity"] == found
        assert {part["name"] for part in web.live()["parts"]} == {f"{v['level']:g} users" for v in found["levels"]}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sweep_shows_the_figures_of_each_step_of_all_workers(tmp_path: Path, workers: int) -> None:
    options = ["--steps", "2,4", "--requests", "12"]
    with pacing() as host, web_ui(tmp_path, host, *options, workers=workers, scenario="sweep") as web:
        web.start(max_tokens="8", user_count="4")
        web.until(lambda _: (web.summary()["scenario_json"] or {}).get("ended_utc"))
        parts = web.live()["parts"]
        assert [part["name"] for part in parts] == ["2 users", "4 users"]
        assert sum(part["ok"] for part in parts) == sum(record.ok and record.measured for record in web.records)
        assert all(part["ok"] == 12 and part["tokens_per_s"] > 0 and part["ttft_ms_p50"] > 0 for part in parts)


def test_too_few_users_for_the_highest_level_are_refused_in_the_form(tmp_path: Path) -> None:
    with pacing() as host, web_ui(tmp_path, host, "--objectives", "ttft_ms=200", scenario="capacity") as web:
        web.start(user_count="4", end="8")
        live = web.until(lambda live: live["problem"])
        assert "--users 4: the highest level needs 8" in live["problem"]


def test_errors_are_counted_by_kind_and_are_in_no_latency(tmp_path: Path) -> None:
    with pacing() as host, web_ui(tmp_path, host) as web:
        web.start(requests="4", max_tokens="8", model="pacing:bad_json")
        live = web.until(lambda live: live["test"] == 1 and live["state"] == "stopped")
        assert live["errors_by_kind"] == {"bad_json": 4}
        assert live["latency"]["ttft_ms"]["n"] == 0
        assert live["tokens_per_s"] is None


def test_each_form_field_reaches_the_scenario_with_its_type(tmp_path: Path) -> None:
    fields = {
        "requests": "3", "warmup": "1", "max_tokens": "6", "samples": "2", "fixed_length": "true", "seed": "9",
        "model": "m", "request_extras": '{"top_k": 1}', "request_timeout": "12.5", "duration": "30",
    }  # fmt: skip
    prompts = {"prompts": "perf-short"}
    with pacing("--interval-ms", "1") as host, web_ui(tmp_path, host) as web:
        web.start(**fields, **prompts)
        web.until(lambda live: live["test"] == 1 and live["state"] == "stopped")
        asked = read_json(web.capture / "scenario.json")["asked"]
        assert (asked["requests"], asked["warmup"], asked["max_tokens"], asked["samples"]) == (3, 1, 6, 2)
        assert (asked["fixed_length"], asked["seed"], asked["model"], asked["duration_s"]) == (True, 9, "m", 30.0)
        assert asked["request_extras"] == {"top_k": 1}
        form = web.get("/").text
        for name in fields:
            assert f'"{name}"' in form


def test_options_that_cannot_be_used_are_told_on_the_page_and_the_next_test_runs(tmp_path: Path) -> None:
    with pacing("--interval-ms", "1") as host, web_ui(tmp_path, host) as web:
        web.start(requests="3", request_extras="{")
        web.until(lambda live: "--request-extras: not JSON" in (live["problem"] or ""))
        web.start(requests="3", request_extras="{}", max_tokens="5")
        live = web.until(lambda live: live.get("counts", {}).get("ok") == 3)
        assert live["problem"] is None


def test_nothing_is_shown_without_a_login_where_one_is_asked_for(tmp_path: Path) -> None:
    paths = ["", "live.json", "requests.jsonl", "summary.json", "static/live.js", "static/tab.js"]
    with web_ui(tmp_path, "http://127.0.0.1:9", login=True) as web:
        for path in paths:
            refused = web.http.get(f"{web.url}/enginebench/{path}", allow_redirects=False, timeout=10)
            assert refused.status_code == 302, path
            assert "/login" in refused.headers["Location"]
        web.log_in()
        for path in paths:
            assert web.get(f"/enginebench/{path}").status_code == (404 if path == "requests.jsonl" else 200), path
        assert "streaming" in web.get("/").text


def test_no_other_site_may_read_the_figures_and_the_page_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    with web_ui(tmp_path, "http://127.0.0.1:9") as web:
        for path in ("", "live.json", "summary.json"):
            answer = web.http.get(
                f"{web.url}/enginebench/{path}", headers={"Origin": "http://other.example"}, timeout=10
            )
            assert "Access-Control-Allow-Origin" not in answer.headers
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert web.get("/enginebench/static/../../_run.py").status_code == 404
        assert web.get("/enginebench/static/..%2f_run.py").status_code == 404
        page = web.get("/enginebench/").text
        assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
        table = web.get("/stats/requests").json()["extended_stats"]
        assert table == [{"key": "streaming", "data": []}]


def test_a_base_path_moves_the_page_too(tmp_path: Path) -> None:
    with web_ui(tmp_path, "http://127.0.0.1:9", "--web-base-path", "/bench") as web:
        assert web.get("/bench/enginebench/live.json").json()["test"] == 0
        assert "./enginebench/static/tab.js" in web.get("/bench/").text


PROFILE = """
name = "p"
description = "for a test"
baseline = "pace"
[[engines]]
name = "pace"
kind = "pacing"
[[cells]]
scenario = "single"
workload = "perf-short"
requests = 1
max_tokens = 5
"""


def test_explore_starts_engine_and_ui_and_leaves_neither(tmp_path: Path) -> None:
    profile = tmp_path / "p.toml"
    profile.write_text(PROFILE)
    argv = [sys.executable, "run_bench.py", "explore", f"{profile}:pace", "--out", str(tmp_path / "out")]
    running = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert running.stdout
        told = next(line for line in running.stdout if "?tab=streaming" in line)
        ui, engine = re.findall(r"http://127\.0\.0\.1:\d+", told)
        web = Web(ui, tmp_path / "out")
        web.start(requests="4", max_tokens="5")
        web.until(lambda live: live["test"] == 1 and live["state"] == "stopped")
        assert sum(record.ok for record in web.records) == 4
    finally:
        running.terminate()
        running.communicate(timeout=40)
    assert running.returncode == 143
    for url in (ui, engine):
        with pytest.raises(requests.ConnectionError):
            requests.get(url, timeout=2)


def test_explore_names_what_is_wrong_with_its_target(tmp_path: Path) -> None:
    profile = tmp_path / "p.toml"
    profile.write_text(PROFILE)
    for target, told in (
        (f"{profile}:nope", "no engine 'nope'; there are pace"),
        ("nothing", "a URL or PROFILE:ENGINE"),
    ):
        argv = [sys.executable, "run_bench.py", "explore", target, "--out", str(tmp_path / "out")]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert told in done.stderr
        assert len(done.stderr.splitlines()) == 1
