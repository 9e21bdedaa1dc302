"""The machine under each engine, in every report."""

from __future__ import annotations

from typing import Any

import pytest

from reporting.html.page import html
from reporting.machine import MACHINE_COLUMNS, machine_facts
from reporting.markdown import markdown
from reporting.terminal import lines, summary
from reporting.view import View
from tests.reporting.report_builders import HOSTILE, example


def sample(engine: str, number: int, **values: Any) -> dict[str, Any]:
    """What scoring keeps of one round."""
    usual: dict[str, Any] = {"others": 0.02, "steal": 0.0, "waited": 0.1, "slowdown": 1.0, "memory_stalled": None}
    head = {"engine": engine, "cell": "concurrent_4.perf-short", "round": number}
    return head | usual | {"load1": 1.5, "mhz": 3000.0, "governor": None, "throttled": None} | values


def crowded() -> dict[str, Any]:
    comparison = example()
    baseline = comparison["baseline"]
    candidate = next(name for name in comparison["engines"] if name != baseline)
    comparison["host"] = [
        sample(candidate, 1, others=0.6, slowdown=2.0, waited=3.0, governor=HOSTILE, throttled=2),
        sample(candidate, 2, others=0.8, slowdown=3.0, waited=4.0, mhz=None, memory_stalled=0.01, throttled=1),
        sample(baseline, 1),
    ]
    return comparison


def test_a_row_is_the_mean_over_the_rounds_with_the_worst_slowdown_baseline_first() -> None:
    facts = machine_facts(View(crowded()))
    comparison = crowded()
    assert [row.engine for row in facts] == [comparison["baseline"], comparison["host"][0]["engine"]]
    calm, busy = (dict(zip(MACHINE_COLUMNS, row.values, strict=True)) for row in facts)
    assert busy["others' CPU"] == "70.0%"
    assert busy["we waited"] == "3.50 s/s"
    assert busy["slowed down"] == "2.50x (worst 3.00x)"
    assert busy["throttled"] == "3 times"
    assert busy["memory stalled"] == "1.0%", "unknown in one round is not 0"
    assert (calm["memory stalled"], calm["throttled"], calm["clock"]) == ("–", "–", "3,000 MHz")


@pytest.mark.parametrize("width", [60, 90, 200])
def test_every_report_shows_how_far_the_machine_was_left_alone(width: int) -> None:
    comparison = crowded()
    terminal = summary(comparison, width=width, plain=False)
    assert "2.50x (worst 3.00x)" in terminal
    for report in (lines(comparison), markdown(comparison), html(comparison), terminal):
        assert "slowed down" in report
        assert "2.50x (worst 3.00x)" in report
        assert "\x1b]0;title" not in report


def test_a_host_that_was_not_sampled_has_no_table() -> None:
    comparison = example()
    comparison["host"] = []
    for report in (lines(comparison), markdown(comparison), html(comparison)):
        assert "slowed down" not in report
