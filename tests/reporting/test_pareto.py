"""Speed for one user against speed for all: the points, the front and the objectives are those of the JSON."""

from __future__ import annotations

from typing import Any

import pytest

from reporting.charts.pareto import Point, front
from reporting.html.page import html
from tests.reporting.report_builders import example
from tests.reporting.report_page import marks, svgs

LEVELS = {
    # engine -> level -> (TPOT p50 in ms, tok/s, share that met the objectives)
    "llama.cpp": {1.0: (10.0, 90.0, 1.0), 4.0: (20.0, 180.0, 0.98), 8.0: (50.0, 150.0, 0.4)},
    "xserv": {1.0: (12.5, 75.0, 1.0), 4.0: (16.0, 220.0, 0.99), 8.0: (25.0, 300.0, 0.7)},
}


def swept() -> dict[str, Any]:
    comparison = example()
    rows: list[dict[str, Any]] = []
    for level in (1.0, 4.0, 8.0):
        values = {engine: levels[level] for engine, levels in LEVELS.items()}
        of_metric = {
            "output_tok_s": {engine: tok_s for engine, (_, tok_s, _) in values.items()},
            "requests_s": {engine: tok_s / 100 for engine, (_, tok_s, _) in values.items()},
            "goodput_s": {engine: tok_s / 100 * met for engine, (_, tok_s, met) in values.items()},
            "tpot_ms_p50": {engine: tpot for engine, (tpot, _, _) in values.items()},
        }
        for metric, known in of_metric.items():
            figures: dict[str, Any] = {
                engine: {"value": v, "ci": None, "n": 9, "rounds": {}} for engine, v in known.items()
            }
            head = {"cell": "sweep.perf-short", "scenario": f"sweep, {level:g} users", "workload": "perf-short"}
            ratio = {"value": None, "ci": None, "text": "", "method": None, "rounds": [1, 1]}
            rows.append(head | {"metric": metric, "unit": "", "better": "higher", "engines": figures, "level": level,
                                "by": "users", "speed_ratio": {"xserv": ratio}})  # fmt: skip
    comparison["steps"] = rows
    comparison["provenance"]["objectives"] = {"ttft_ms": None, "tpot_ms": 40.0, "e2e_ms": None}
    return comparison


PICTURE = "Speed for one user and for all, sweep.perf-short"


def test_each_level_of_each_engine_is_a_point() -> None:
    found = [mark for mark in marks(html(swept())) if mark.picture == PICTURE and mark.kind == "point"]
    told = {(engine, 1000 / tpot, tok_s) for engine, levels in LEVELS.items() for tpot, tok_s, _ in levels.values()}
    assert len(found) == len(told) == 6
    for mark in found:
        x, y = mark.points[0]
        assert any(
            engine == mark.series and x == pytest.approx(per_user, rel=0.01) and y == pytest.approx(total, rel=0.01)
            for engine, per_user, total in told
        )


def test_the_front_is_marked_and_the_objective_drawn_in() -> None:
    page = html(swept())
    [line] = [mark for mark in marks(page) if mark.picture == PICTURE and mark.series == "Pareto front"]
    # From the fastest for one user on: no point is faster both ways.
    assert [round(y) for _, y in line.points] == [90, 220, 300]
    [picture] = [svg for svg in svgs(page) if svg.findtext("title") == PICTURE]
    assert len([path for path in picture.iter("path") if path.get("class") == "rule"]) == 1
    # Two levels had fewer than 95% of requests within the objectives.
    assert len([point for point in picture.iter("circle") if "missed" in point.get("class", "")]) == 2
    assert "25.0 tok/s per user" in page or "25.00 tok/s per user" in page


def test_tokens_are_told_per_gpu_where_the_engine_ran_on_several() -> None:
    comparison = swept()
    for card in comparison["engines"].values():
        card["gpus"] = 2
    found = [mark for mark in marks(html(comparison)) if mark.picture == PICTURE and mark.kind == "point"]
    assert max(mark.points[0][1] for mark in found) == pytest.approx(150, rel=0.01)
    assert "total tok/s per GPU" in html(comparison)


def test_a_point_that_is_as_fast_for_one_user_and_slower_for_all_is_not_on_the_front() -> None:
    points = [Point("a", 1, 50, 100, None), Point("a", 2, 50, 120, None), Point("b", 3, 40, 119, None)]
    assert front(points) == [points[1]]
    assert front([]) == []
