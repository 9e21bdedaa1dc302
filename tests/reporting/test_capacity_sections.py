"""The sections on capacity and cancelled requests hold the figures of the JSON, and nothing hostile works in them."""

from __future__ import annotations

from typing import Any

from reporting.finding import finding
from reporting.html.page import html
from reporting.markdown import markdown
from reporting.terminal import summary
from reporting.view import View
from tests.reporting.report_builders import HOSTILE, example, poisoned

BASE, CANDIDATE = "llama.cpp", "xserv"


def searched() -> dict[str, Any]:
    comparison = example()
    level = {"level": 4.0, "requests": 73, "met": 73, "share": 1.0, "ci": [0.95, 1.0], "verdict": "passes"}
    worse = {"level": 8.0, "requests": 12, "met": 8, "share": 2 / 3, "ci": [0.4, 0.9], "verdict": "fails"}
    row = {
        "cell": "capacity.perf-short", "workload": "perf-short", "round": 1, "by": "users", "start": 1.0, "step": 1.0,
        "end": 64.0, "pass_share": 0.95, "confidence": 0.95, "objectives": {"ttft_ms": 400.0}, "passes": 6.0,
        "fails": 7.0, "at_least_end": False, "below_start": False, "undecided": [], "requests": 206, "sent": 256,
        "complete": True, "reason": None, "levels": [level, worse],
    }  # fmt: skip
    stopped = row | {"engine": CANDIDATE, "complete": False, "fails": None, "reason": f"stopped {HOSTILE}"}
    comparison["capacity"] = [row | {"engine": BASE}, stopped]
    figure = {"value": 6.0, "ci": [6.0, 7.0], "n": 206, "rounds": {"1": 6.0}, "resolution": 0.154}
    unknown = {"value": None, "ci": None, "n": 0, "rounds": {"1": None}}
    ratio = {"value": None, "ci": None, "text": "no figure on both sides", "method": None, "rounds": [0, 0]}
    comparison["performance"].append(
        {"cell": row["cell"], "scenario": "capacity", "workload": "perf-short", "metric": "capacity_users",
         "unit": "users", "better": "higher", "engines": {BASE: figure, CANDIDATE: unknown},
         "speed_ratio": {CANDIDATE: ratio}}
    )  # fmt: skip
    side = {"value": 61.8, "ci": None, "n": 60, "rounds": {"1": 61.8}}
    head = {"engine": BASE, "cell": "closed_loop.cancel", "share": 0.4, "after_tokens": 3, "cancelled": 20,
            "requests": 60, "twin": "closed_loop.plain", "unit": "ms"}  # fmt: skip
    known = {"without": side, "with": side | {"value": 30.9}, "speed_ratio": ratio | {"value": 2.0, "ci": [1.9, 2.1]}}
    nothing = {"without": None, "with": side | {"value": None}, "speed_ratio": None}
    comparison["cancellation"] = [head | {"metric": "ttft_ms_p50"} | known, head | {"metric": "ttft_ms_p99"} | nothing]
    return comparison


def test_the_search_is_told_in_every_report() -> None:
    for text in (markdown(searched()), html(searched()), summary(searched(), plain=True)):
        assert "6 users (7 fail)" in text
        assert "6 users pass" in text  # what is known of the one that was stopped
    page = html(searched())
    assert "206 of 256" in page
    assert "8: fails (66.7% of 12)" in page
    assert "The most load at which 95% of requests meet every objective (TTFT 400 ms)" in page


def test_the_finding_says_what_each_engine_carries() -> None:
    told = dict(finding(View(searched())).paragraphs)
    assert told["Capacity"].startswith(f"Capacity in capacity.perf-short: {BASE} 6 users, {CANDIDATE} unknown: stopped")


def test_where_only_a_capacity_was_asked_it_leads() -> None:
    comparison = searched()
    comparison["performance"] = comparison["performance"][-1:]
    assert finding(View(comparison)).lead.startswith("Capacity in capacity.perf-short")


def test_cancellation_shows_both_sides_and_leaves_out_what_nobody_knows() -> None:
    text = markdown(searched())
    assert "20 of 60 requests cancelled after 3 tokens; compared with closed" in text.replace("\\", "")
    [line] = [line for line in text.splitlines() if "closed\\_loop.cancel |" in line or "closed_loop.cancel |" in line]
    assert "61.8" in line and "30.9" in line and "2.00× [1.90, 2.10]" in line
    assert "61.80 ms" in html(searched()) or "61.8 ms" in html(searched())


def test_nothing_hostile_works_in_these_sections() -> None:
    comparison = poisoned(searched())
    assert "<script" not in markdown(comparison).replace("\\", "").split("## Capacity")[1].split("## ")[0]
    assert HOSTILE not in html(comparison)
