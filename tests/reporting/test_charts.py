"""Charts hold the figures of the JSON: marks are turned back into figures through the plot's scales."""

from __future__ import annotations

import statistics

import pytest

from reporting.charts import scale as scales
from reporting.html.page import html
from tests.reporting.report_builders import example, with_gpu, with_rounds
from tests.reporting.report_page import marks, svgs


def test_distributions_pass_through_the_median_of_the_requests() -> None:
    comparison = example()
    cell = "concurrent_4.perf-medium"
    found = marks(html(comparison))
    for metric, name in (("ttft_ms", "TTFT"), ("tpot_ms", "TPOT")):
        for engine in ("llama.cpp", "xserv"):
            values = [
                row[metric]
                for row in comparison["requests"]
                if (row["engine"], row["cell"], row["status"]) == (engine, cell, "ok") and row["phase"] != "warmup"
            ]
            [line] = [m for m in found if m.picture == f"{name}, {cell}" and m.series == engine]
            below = [x for x, share in line.points if share <= 0.5 + 1e-6]
            spread = max(values) - min(values)
            assert max(below) == pytest.approx(statistics.median(values), abs=spread / 4 + 0.1)
            assert line.points[0][0] == pytest.approx(min(values), rel=0.01)
            assert line.points[-1][0] == pytest.approx(max(values), rel=0.01)
            assert line.points[-1][1] == pytest.approx(1, abs=0.01)


def test_throughput_points_are_the_performance_rows() -> None:
    comparison = example()
    told = {
        (engine, number): row["engines"][engine]["value"]
        for row in comparison["performance"]
        for number in [{"single": 1, "concurrent_4": 4, "concurrent_8": 8}[row["scenario"]]]
        for engine in row["engines"]
        if row["metric"] == "output_tok_s" and row["workload"] == "perf-medium"
    }
    points = [m for m in marks(html(comparison)) if m.picture == "Output throughput, perf-medium" and m.kind == "point"]
    assert len(points) == len(told) == 6
    for mark in points:
        x, y = mark.points[0]
        assert y == pytest.approx(told[mark.series, round(x)], rel=0.005)


def test_accuracy_points_are_the_quality_rows() -> None:
    comparison = example()
    told = sorted(e["accuracy"] for row in comparison["quality"] for e in row["engines"].values())
    points = [m.points[0][0] for m in marks(html(comparison)) if m.picture == "Accuracy by workload"]
    assert sorted(points) == pytest.approx(told, abs=0.003)


def test_tokens_over_time_are_the_series_and_the_steady_window_is_shaded() -> None:
    comparison = example()
    page = html(comparison)
    row = next(
        row for row in comparison["series"]["cells"] if (row["engine"], row["cell"]) == ("xserv", "single.perf-medium")
    )
    title = "Load over time, xserv, single.perf-medium"
    line, flight = [m for m in marks(page) if m.picture == title]
    drawn = [y for _, y in line.points]
    assert max(drawn) == pytest.approx(max(row["tokens"]["tok_s"]), rel=0.01)
    assert max(y for _, y in flight.points) == pytest.approx(max(row["in_flight"]["n"]), rel=0.01)
    [svg] = [svg for svg in svgs(page) if svg.findtext("title") == title]
    shades = [rect for rect in svg.iter("rect") if rect.get("class") == "shade"]
    assert len(shades) == 2 * len(row["steady_s"])


def test_the_ratio_of_every_round_is_drawn() -> None:
    page = html(with_rounds(example(), (0.58, 0.6, 0.61)))
    found = [
        m.points[0] for m in marks(page) if m.kind == "point" and m.picture.startswith("Throughput ratio, single.perf")
    ]
    assert [y for _, y in found] == pytest.approx([0.58, 0.6, 0.61], abs=0.005)
    alone = html(with_rounds(example(), (0.6,)))
    assert not [m for m in marks(alone) if m.picture.startswith("Throughput ratio")]


def test_gpu_curves_are_drawn_only_where_they_were_measured() -> None:
    [power, _] = [m for m in marks(html(with_gpu(example()))) if m.picture == "Power over time"]
    assert [y for _, y in power.points] == pytest.approx([90.0, 310.5, 300.0], rel=0.01)
    assert "Power over time" not in html(example())


def test_every_chart_has_a_title_a_description_and_at_most_2000_points() -> None:
    comparison = example()
    comparison["series"]["cells"][0]["in_flight"] = {
        "t_s": [i / 100 for i in range(50_000)], "n": [i % 5 for i in range(50_000)],
    }  # fmt: skip
    page = html(comparison)
    pictures = [svg for svg in svgs(page) if svg.find("g") is not None and svg.find("desc") is not None]
    assert len(pictures) > 10
    assert all(svg.findtext("title") and svg.findtext("desc") for svg in pictures)
    assert max(len(m.points) for m in marks(page)) <= scales.MAX_POINTS


@pytest.mark.parametrize(
    ("low", "high", "ticks"), [(0, 10, [0, 2, 4, 6, 8, 10]), (0, 0.3, [0, 0.1, 0.2, 0.3]), (5, 5, [5])]
)
def test_ticks_are_round(low: float, high: float, ticks: list[float]) -> None:
    assert scales.nice_ticks(low, high) == pytest.approx(ticks)


def test_a_log_scale_has_its_ends_where_they_belong() -> None:
    scale = scales.fitting([1, 1000], 0, 100)
    assert scale.log
    assert 0 < scale.at(1) < scale.at(30) < scale.at(1000) < 100
    assert scale.ticks()


def test_an_interval_a_hundred_times_as_high_as_its_figure_does_not_flatten_the_chart() -> None:
    comparison = example()
    for row in comparison["performance"]:
        if row["metric"] == "output_tok_s":
            row["engines"]["xserv"]["ci"] = [0.1, 40_000.0]
    [svg] = [svg for svg in svgs(html(comparison)) if svg.findtext("title") == "Output throughput, perf-medium"]
    plot = svg.find("g")
    assert plot is not None
    assert float(plot.get("data-y", "").split()[1]) < 1000


def test_depth_charts_hold_prefill_and_tpot_of_synthetic_workloads_at_their_planned_lengths() -> None:
    comparison = example()
    rows = [row for row in comparison["performance"] if row["scenario"] == "single"]
    lengths = {"depth-0": 32, "depth-4096": 4128}
    comparison["performance"] = [
        row | {"workload": workload, "cell": f"single.{workload}"}
        for row in rows
        if row["workload"] == "perf-medium"
        for workload in lengths
    ]
    assert not [mark for mark in marks(html(comparison)) if "over depth" in mark.picture]
    comparison["provenance"]["workloads"] = {name: {"input_tokens": tokens} for name, tokens in lengths.items()}
    for metric, name in (("prefill_tok_s", "Prefill speed"), ("tpot_ms_p50", "TPOT p50")):
        (row,) = [row for row in comparison["performance"] if (row["metric"], row["workload"]) == (metric, "depth-0")]
        points = [m for m in marks(html(comparison)) if m.picture == f"{name} over depth, single" and m.kind == "point"]
        assert [round(x) for mark in points for x, _ in mark.points] == pytest.approx([32, 4128] * 2, abs=5)
        for mark in points:
            assert mark.points[0][1] == pytest.approx(row["engines"][mark.series]["value"], rel=0.005)
