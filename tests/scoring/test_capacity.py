"""What a comparison makes of capacity searches: the bracket, the ratio with its interval, no figure of mixed levels."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from records import RunFolder, write_json
from reporting.capacity import capacity_facts
from reporting.view import View
from scoring.compare import compare
from scoring.speed.capacity import add_capacity, capacity_rows
from scoring.speed.latency import CellFigures, cell_figures
from scoring.speed.rows import performance_rows
from scoring.speed.verdicts import judge_speed
from scoring.statistics.ratios import grid_blur, welch
from tests.builders import RunBuilder, Speed
from tests.scoring.hand import capture_of, request


def found(passes: float | None, fails: float | None, **more: Any) -> dict[str, Any]:
    level = {"level": 4.0, "requests": 73, "met": 73, "share": 1.0, "ci": [0.951, 1.0], "verdict": "passes"}
    return {
        "by": "users", "start": 1.0, "step": 1.0, "end": 64.0, "pass_share": 0.95, "confidence": 0.95,
        "objectives": {"ttft_ms": 500.0}, "passes": passes, "fails": fails, "at_least_end": False,
        "below_start": False, "undecided": [], "requests": 200, "complete": True, "reason": None, "levels": [level],
    } | more  # fmt: skip


def figures_of(tmp_path: Path, capacity: dict[str, Any]) -> CellFigures:
    capture = capture_of(tmp_path, [request(0, 90, chunks_ms=[30, 60, 90])], shape="capacity")
    capture.scenario["capacity"] = capacity
    figures = cell_figures(capture)
    add_capacity(figures, capture)
    return figures


def rows_of(tmp_path: Path, engines: dict[str, list[tuple[float | None, float | None]]]) -> list[dict[str, Any]]:
    rounds = {
        engine: [(k, figures_of(tmp_path, found(*bracket))) for k, bracket in enumerate(brackets, 1)]
        for engine, brackets in engines.items()
    }
    return performance_rows("capacity.x", "capacity", "x", rounds, "a")


def test_the_capacity_is_the_only_figure_of_its_cell(tmp_path: Path) -> None:
    [row] = rows_of(tmp_path, {"a": [(6, 7), (6, 7)], "b": [(9, 10), (9, 10)]})
    assert (row["metric"], row["unit"], row["better"]) == ("capacity_users", "users", "higher")
    assert row["engines"]["a"]["value"] == pytest.approx(6)
    # The interval holds the levels between passing and failing.
    assert row["engines"]["a"]["ci"] == pytest.approx([6, 7])
    ratio = row["speed_ratio"]["b"]
    assert ratio["value"] == pytest.approx(1.5)
    assert ratio["ci"][0] < 9 / 7 < 10 / 6 < ratio["ci"][1]


def test_one_round_gives_the_ratio_that_the_brackets_allow(tmp_path: Path) -> None:
    [row] = rows_of(tmp_path, {"a": [(6, 7)], "b": [(9, 10)]})
    ratio = row["speed_ratio"]["b"]
    assert ratio["ci"] == pytest.approx([9 / 7, 10 / 6])
    assert ratio["method"] == "bootstrap within one run"


@pytest.mark.parametrize(
    ("capacity", "words"),
    [
        (found(6, 7), "6 users (7 fail)"),
        (found(6, 8, undecided=[7.0]), "6 users (8 fail); undecided: 7"),
        (found(64, None, at_least_end=True), "at least 64 users"),
        (found(None, 1, below_start=True), "below 1 user"),
        (
            found(4, None, complete=False, reason="the time limit of 9 s"),
            "unknown: the time limit of 9 s; 4 users pass",
        ),
        (found(2.5, 3, by="rate"), "2.5 requests/s (3 fail)"),
    ],
)
def test_the_result_is_told_in_words_and_an_open_bracket_is_no_figure(
    tmp_path: Path, capacity: dict[str, Any], words: str
) -> None:
    figures = figures_of(tmp_path, capacity)
    rows = capacity_rows("capacity.x", "x", {"a": [(1, {"capacity": capacity}, figures)]})
    [fact] = capacity_facts(View({"capacity": rows, "engines": {"a": {}}}))
    assert fact.result == words
    name = "capacity_requests_s" if capacity["by"] == "rate" else "capacity_users"
    known = capacity["complete"] and None not in (capacity["passes"], capacity["fails"])
    assert figures.values[name] == (capacity["passes"] if known else None)


def test_an_open_bracket_leaves_no_ratio(tmp_path: Path) -> None:
    [row] = rows_of(tmp_path, {"a": [(6, 7), (6, 7)], "b": [(64, None), (64, None)]})
    assert row["speed_ratio"]["b"]["value"] is None


def test_a_profile_can_name_the_capacity_as_deciding(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, {"a": [(6, 7)] * 4, "b": [(12, 13)] * 4})
    judge_speed(rows, "a", 0.03, deciding=("capacity_users",))
    assert rows[0]["speed_ratio"]["b"]["verdict"] == "faster"
    rows = rows_of(tmp_path, {"a": [(6, 7)] * 4, "b": [(7, 8)] * 4})
    judge_speed(rows, "a", 0.03, deciding=("capacity_users",))
    # One step apart may be the grid's doing.
    assert rows[0]["speed_ratio"]["b"]["verdict"] == "inconclusive"


def test_equal_engines_have_a_ratio_of_one_in_the_interval_however_the_grid_lies() -> None:
    rng, held, trials = random.Random(5), 0, 400
    for _ in range(trials):
        true = rng.uniform(3, 20)
        sides = [[int(true * rng.gauss(1, 0.05)) for _ in range(3)] for _ in range(2)]
        widths = [sum(math.log((p + 1) / p) for p in side) / 3 for side in sides]
        interval = welch(sides[0], sides[1], blur=grid_blur(*widths)).ratio_interval()
        held += interval.low <= 1 <= interval.high
    assert held >= 0.95 * trials


def test_a_search_beside_a_hook_is_shown_and_not_compared(tmp_path: Path) -> None:
    run, cell = RunBuilder(rounds=2), "capacity.perf-short"
    speed = Speed(20, 10, tokens=8, requests=16)
    run.perf(cell, {"base": speed, "cand": speed})
    for engine, number in run.states:
        scenario = run.scenarios[engine, number, cell]
        scenario["capacity"] = found(6, 7)
        scenario["asked"]["shape"] = "capacity"
    folder = run.write(tmp_path / "run")
    for engine in ("base", "cand"):
        write_json(RunFolder(folder.path).round(engine, 1).cell(cell).hooks, {"hooks": [{"hook": "during_cell"}]})
    comparison = compare(folder, created="now")
    assert [(row["engine"], row["round"], row["sent"]) for row in comparison["capacity"]] == [
        ("base", 1, 16), ("base", 2, 16), ("cand", 1, 16), ("cand", 2, 16),
    ]  # fmt: skip
    [row] = [row for row in comparison["performance"] if row["metric"] == "capacity_users"]
    assert row["engines"]["cand"]["rounds"] == {"2": 6.0}
