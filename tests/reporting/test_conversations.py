"""Turns and reused prefixes are in every report, with the figures of the JSON, and nothing hostile works in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from reporting.format import metric_name
from reporting.html.page import html
from reporting.markdown import markdown
from tests.reporting.report_builders import HOSTILE, example

BASE, CANDIDATE = "llama.cpp", "xserv"
CELL = "concurrent_4.talk"
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "comparison.schema.json"


def talked(cell: str = CELL) -> dict[str, Any]:
    comparison = example()
    engines = {
        BASE: {"value": 100.0, "ci": [90.0, 110.0], "n": 12, "rounds": {"1": 100.0}},
        CANDIDATE: {"value": 50.0, "ci": None, "n": 12, "rounds": {"1": 50.0}},
    }
    ratio = comparison["performance"][0]["speed_ratio"][CANDIDATE] | {"value": 2.0, "ci": [1.8, 2.2]}
    head = {"cell": cell, "scenario": "concurrent_4", "workload": "talk", "metric": "ttft_ms_p50", "unit": "ms"}
    row = head | {"better": "lower", "engines": engines, "speed_ratio": {CANDIDATE: ratio}}
    comparison["turns"] = [row | {"turn": turn} for turn in (1, 2)]
    comparison["conversations"] = [
        {"cell": cell, "engine": BASE, "round": n, "conversations": 5, "complete": 3, "failed": 1, "turns": 9}
        for n in (1, 2)
    ]
    reuse = {"cell": cell, "workload": "talk", "requests": 4, "prompt_tokens": 400.0, "reusable_tokens": 300.0}
    known = reuse | {"engine": BASE, "turn": None, "cached_tokens": 250.0, "planned": 0.75, "achieved": 0.625}
    comparison["reuse"] = [
        known,
        reuse | {"engine": CANDIDATE, "turn": 2} | dict.fromkeys(("cached_tokens", "planned", "achieved")),
    ]
    request = next(row for row in comparison["requests"] if row["phase"] == "measure")
    comparison["requests"].append(request | {"cell": cell, "turn": 2, "reusable_tokens": 75, "cached_tokens": 60})
    return comparison


def test_the_rows_are_those_of_the_schema() -> None:
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(talked())


def test_turns_and_reuse_are_told_in_every_report() -> None:
    plain = markdown(talked()).replace("\\", "")
    for text in (plain, html(talked())):
        assert "10 conversations of 18 turns; 6 came to their last turn, 2 ended with a turn that failed" in text
        assert "2 were cut by the end of the load" in text
        assert "turn 2" in text
        assert "62.5%" in text
    assert "| concurrent_4.talk | llama.cpp | all | 4 | 100 | 75 | 62 | 75.0% | 62.5% |" in markdown(talked()).replace(
        "\\", ""
    )


def test_the_charts_show_ttft_by_turn_and_over_reusable_tokens() -> None:
    page = html(talked())
    assert f"TTFT by turn, {CELL}" in page
    assert f"TTFT over reusable tokens, {CELL}" in page


def test_hostile_names_do_nothing_and_a_report_without_conversations_has_no_section() -> None:
    page = html(talked(HOSTILE))
    assert "<script>alert" not in page
    assert "Conversations and reused prefixes" not in html(example())
    assert "Reused prefixes" not in markdown(example())


def test_the_ttft_of_a_turn_has_a_name() -> None:
    assert metric_name("ttft_turn_5_ms_p50") == "TTFT of turn 5 p50"
    assert metric_name("ttft_turn_last_ms_p50") == "TTFT of the last turn p50"
