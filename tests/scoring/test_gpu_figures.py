"""GPU figures come from the samples inside a cell's time, and are absent where nothing was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from records import JsonObject
from scoring.compare import compare
from scoring.speed.gpu import energy_joules, gpu_series, throttle_reasons
from tests.builders import RunBuilder, Speed

CELL = "single.perf-short"


def run_with(gpu: dict[str, Any] | None) -> RunBuilder:
    run = RunBuilder()
    speed = Speed(20, 10, tokens=50, requests=10, noise=0.0)
    run.perf(CELL, {"base": speed, "cand": speed})
    for key in run.states if gpu else []:
        records = [r for r in run.records[*key, CELL] if r.measured]
        start, end = min(r.sent_ns or 0 for r in records), max(r.end_ns for r in records)
        # Ten seconds before and after, at another power: not of this cell.
        for t in range(start - 10 * 10**9, end + 10 * 10**9, 10**8):
            inside = start <= t <= end
            sample = {**gpu, "power_w": gpu["power_w"] if inside else 900.0}  # type: ignore[index, dict-item]
            run.gpu.setdefault(key, []).append({"t_ns": t, "gpus": [sample]})
    return run


def value_of(comparison: JsonObject, metric: str) -> float | None:
    rows = [r for r in comparison["performance"] if r["metric"] == metric]
    return rows[0]["engines"]["base"]["value"] if rows else None


def test_joules_a_token_and_peak_memory_are_of_the_cells_own_time(tmp_path: Path) -> None:
    run = run_with({"power_w": 100.0, "memory_used_mib": 800.0})
    comparison = compare(run.write(tmp_path / "run"), created="now")
    # 100 W for some 5.1 s over 500 tokens.
    assert value_of(comparison, "joules_per_token") == pytest.approx(1.02, rel=0.05)
    assert value_of(comparison, "peak_vram_mib") == 800.0


def test_without_a_meter_there_is_no_gpu_figure_at_all(tmp_path: Path) -> None:
    comparison = compare(run_with(None).write(tmp_path / "run"), created="now")
    assert value_of(comparison, "joules_per_token") is None
    assert comparison["series"]["gpu"] == []


def test_the_energy_counter_is_believed_before_the_power() -> None:
    rows = [{"t_ns": t * 10**9, "gpus": [{"power_w": 1.0, "energy_mj": 5000.0 * t}]} for t in range(3)]
    assert energy_joules(rows) == pytest.approx(10.0)
    assert energy_joules([{"t_ns": t * 10**9, "gpus": [{"power_w": 3.0}]} for t in range(3)]) == pytest.approx(6.0)
    assert energy_joules(rows[:1]) is None


def test_a_card_that_does_not_tell_makes_the_sum_unknown() -> None:
    rows: list[JsonObject] = [
        {"t_ns": t, "gpus": [{"power_w": 1.0}, {"power_w": None, "throttle": ["hw_slowdown"]}]} for t in range(2)
    ]
    assert energy_joules(rows) is None
    assert throttle_reasons(rows) == {"hw_slowdown": 2}
    series = gpu_series("e", 1, rows)
    assert series is not None
    assert series["power_w"]["values"] == []


def test_the_energy_of_a_short_cell_is_that_of_its_whole_time(tmp_path: Path) -> None:
    run = run_with({"power_w": 100.0, "memory_used_mib": 800.0})
    for rows in run.gpu.values():
        del (
            rows[1::2],
            rows[1::2],
        )  # a sample every 0.4 s
    comparison = compare(run.write(tmp_path / "run"), created="now")
    records = [r for r in run.records["base", 1, CELL] if r.measured]
    seconds = (max(r.end_ns for r in records) - min(r.sent_ns or 0 for r in records)) / 1e9
    assert value_of(comparison, "joules_per_token") == pytest.approx(100 * seconds / 500, rel=1e-3)


def test_samples_of_half_a_cell_tell_no_energy(tmp_path: Path) -> None:
    run = run_with({"power_w": 100.0, "memory_used_mib": 800.0})
    for key in run.gpu:
        records = [r for r in run.records[*key, CELL] if r.measured]
        half = (min(r.sent_ns or 0 for r in records) + max(r.end_ns for r in records)) / 2
        run.gpu[key] = [row for row in run.gpu[key] if row["t_ns"] < half]
    comparison = compare(run.write(tmp_path / "run"), created="now")
    assert value_of(comparison, "joules_per_token") is None
    assert value_of(comparison, "peak_vram_mib") == 800.0


def memory_rows(folder: Path, *, reserves: bool = False) -> JsonObject:
    """What a comparison says of peak memory, 1,000 MiB in the baseline and 800 in the candidate."""
    run = RunBuilder(rounds=3, profile={"verdict": {"deciding": ["peak_vram_mib"]}})
    speed = Speed(20, 10, tokens=50, requests=10)
    run.perf(CELL, {"base": speed, "cand": speed})
    for engine, number in run.states:
        at = run.records[engine, number, CELL][-1].sent_ns or 0
        used = 1000.0 if engine == "base" else 800.0
        run.gpu[engine, number] = [{"t_ns": at, "gpus": [{"memory_used_mib": used + number}]}]
        run.states[engine, number]["asked"]["reserves_memory"] = reserves and engine == "cand"
    rows = compare(run.write(folder / "run"), created="now")["performance"]
    ratio: JsonObject = next(row for row in rows if row["metric"] == "peak_vram_mib")["speed_ratio"]["cand"]
    return ratio


def test_less_memory_is_better_and_not_faster(tmp_path: Path) -> None:
    ratio = memory_rows(tmp_path)
    assert ratio["verdict"] == "better"
    assert ratio["text"].endswith("better")


def test_memory_that_is_reserved_as_a_pool_is_a_setting_and_gets_no_verdict(tmp_path: Path) -> None:
    ratio = memory_rows(tmp_path, reserves=True)
    assert (ratio["value"], ratio["verdict"]) == (None, None)
    assert ratio["text"] == "a setting: the engine reserves its memory as a pool when it starts"
