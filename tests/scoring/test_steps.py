"""A sweep is told step by step: each level by its own requests, and held to its own number in flight."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driver.compare_and_report import judge
from records import JsonObject
from reporting.html.page import html
from reporting.markdown import markdown
from scoring.compare import compare
from scoring.speed.steps import step_figures
from tests.builders import RunBuilder, Speed
from tests.scoring.hand import MS, capture_of, request
from tests.scoring.test_schemas import validator

CELL = "sweep.perf-short"


def step(level: float, start_ms: float, end_ms: float | None) -> JsonObject:
    return {"level": level, "start_ns": round(start_ms * MS), "end_ns": None if end_ms is None else round(end_ms * MS)}


def test_each_level_has_the_figures_of_its_own_requests(tmp_path: Path) -> None:
    alone = [request(at, at + 90, chunks_ms=[at + 10, at + 90], tokens=9, chunk_tokens=[1, 8]) for at in (0, 100, 200)]
    together = [
        request(at, at + 190, chunks_ms=[at + 30, at + 190], tokens=9, chunk_tokens=[1, 8], user=user)
        for at in (1000, 1200)
        for user in (0, 1)
    ]
    warm = request(0, 90, phase="warmup", user=5)
    capture = capture_of(tmp_path, [warm, *alone, *together], users=8, shape="sweep")
    capture.scenario["steps"] = [step(1, 0, 300), step(2, 1000, None), {"level": 4, "start_ns": None, "end_ns": None}]
    found = step_figures(capture)
    assert list(found) == [1.0, 2.0]
    assert [len(figures.good) for figures in found.values()] == [3, 4]
    assert [figures.values["ttft_ms_p50"] for figures in found.values()] == pytest.approx([10, 30])
    assert [figures.values["tpot_ms_p50"] for figures in found.values()] == pytest.approx([10, 20])
    assert [figures.steady.reached for figures in found.values()] == [1, 2]
    # Nine tokens in each 100 ms alone; eighteen in each 200 ms together.
    assert found[1.0].values["output_tok_s"] == pytest.approx(9 * 3 / 0.29, rel=0.01)
    assert found[2.0].values["output_tok_s"] == pytest.approx(18 * 2 / 0.39, rel=0.01)


def test_a_sweep_of_rates_has_open_loops_for_steps(tmp_path: Path) -> None:
    records = [
        request(at, at + 50, scheduled_ms=at - 1, user=i) for i, at in enumerate((0, 100, 200, 1000, 1025, 1050))
    ]
    capture = capture_of(tmp_path, records, users=8, shape="sweep")
    capture.scenario["steps"] = [step(10, 0, 300), step(40, 1000, 1200)]
    found = step_figures(capture)
    assert list(found) == [10.0, 40.0]
    assert all(figures.steady.asked is None for figures in found.values())
    assert found[40.0].values["ttft_scheduled_ms_p50"] == pytest.approx(51)


def test_workers_have_steps_on_their_own_clocks(tmp_path: Path) -> None:
    hour = 3_600_000
    records = [request(at + late, at + late + 50, worker=w) for w, late in (("a", 0), ("b", hour)) for at in (0, 500)]
    capture = capture_of(tmp_path, records, users=4, shape="sweep")
    capture.scenario["workers"] = [
        {"worker": "a", "steps": [step(2, 0, 400), step(4, 500, 600)]},
        {"worker": "b", "steps": [step(2, hour, hour + 400), step(4, hour + 500, hour + 600)]},
    ]
    assert {level: len(figures.good) for level, figures in step_figures(capture).items()} == {2.0: 2, 4.0: 2}


def test_a_load_without_steps_has_none(tmp_path: Path) -> None:
    assert step_figures(capture_of(tmp_path, [request(0, 50)])) == {}


def sweep_run() -> RunBuilder:
    """Two engines in a sweep over 1 and 4 users: one batches four, the other takes four times as long for them."""
    run = RunBuilder()
    both = {"single.perf-short": (10.0, 10.0), "concurrent_4.perf-short": (10.0, 40.0)}
    for (cell, tpots), users in zip(both.items(), (1, 4), strict=True):
        speeds = {e: Speed(20, tpot, users=users, tokens=24) for e, tpot in zip(run.engines, tpots, strict=True)}
        run.perf(cell, speeds)
    for engine in run.engines:
        parts = [(cell, run.records.pop((engine, 1, cell)), run.scenarios.pop((engine, 1, cell))) for cell in both]
        run.records[engine, 1, CELL] = [r for _, records, _ in parts for r in records if r.measured]
        steps = [
            {"level": level, "start_ns": told["measure_start_ns"], "end_ns": told["measure_end_ns"]}
            for level, (_, _, told) in zip((1.0, 4.0), parts, strict=True)
        ]
        told = parts[1][2]
        asked = told["asked"] | {"shape": "sweep", "steps": "1,4", "warmup": 0}
        run.scenarios[engine, 1, CELL] = told | {"cell": CELL, "scenario": "sweep", "asked": asked, "steps": steps}
        for record in run.records[engine, 1, CELL]:
            record.cell = CELL
    run.profile["cells"] = [run.profile["cells"][0] | {"scenario": "sweep", "warmup": 0}]
    return run


def test_a_sweep_is_compared_level_by_level(tmp_path: Path) -> None:
    comparison, path = judge(sweep_run().write(tmp_path / "run"))
    assert not comparison["verdict"]["void"], comparison["verdict"]["reasons"]
    validator("comparison").validate(json.loads(path.read_text()))
    rows = {(row["level"], row["metric"]): row for row in comparison["steps"]}
    assert rows[1.0, "tpot_ms_p50"]["speed_ratio"]["cand"]["value"] == pytest.approx(1, rel=0.02)
    assert rows[4.0, "tpot_ms_p50"]["speed_ratio"]["cand"]["value"] == pytest.approx(0.25, rel=0.02)
    assert rows[4.0, "ttft_ms_p50"]["scenario"] == "sweep, 4 users"
    (reached,) = [r for r in comparison["audit"] if (r["check"], r["engine"]) == ("concurrency achieved", "cand")]
    assert (reached["status"], reached["evidence"]) == ("pass", "1, 4 in flight, each in its step")
    assert any("mix" in caveat and CELL in caveat for caveat in comparison["verdict"]["caveats"])
    assert "| sweep, 4 users / perf-short |" in markdown(comparison)
    assert "sweep, 4 users" in html(comparison)


def test_a_level_that_was_not_reached_is_void(tmp_path: Path) -> None:
    run = sweep_run()
    run.records["cand", 1, CELL] = [r for r in run.records["cand", 1, CELL] if r.user != 3]
    comparison = compare(run.write(tmp_path / "run"), created="now")
    (row,) = [r for r in comparison["audit"] if (r["check"], r["engine"]) == ("concurrency achieved", "cand")]
    assert (row["status"], row["evidence"]) == ("fail", "3 in flight at once; this step asks for 4")
