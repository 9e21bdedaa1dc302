"""The finding in words answers: which is faster, where, by how much at least; are answers as good; can I trust it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from reporting.finding import Finding, finding, near_bound, needed_rounds
from reporting.html.page import html
from reporting.junit import junit
from reporting.markdown import markdown
from reporting.terminal import lines
from reporting.view import View
from tests.reporting.report_builders import example, one_round, void_example, with_speed

VERDICT_WORDS = re.compile(r"\b(faster|slower|better|worse|equivalent|inconclusive|equally fast|as fast as)\b")
SINGLE, FOUR, EIGHT = "single.perf-medium", "concurrent_4.perf-medium", "concurrent_8.perf-medium"
RATE, TTFT, TPOT = "output_tok_s", "ttft_ms_p50", "tpot_ms_p50"


def found(comparison: dict[str, Any]) -> Finding:
    return finding(View(comparison))


def said(comparison: dict[str, Any], label: str) -> list[str]:
    return [text for of, text in found(comparison).paragraphs if of == label]


def test_it_says_which_engine_is_faster_where_and_by_how_much_at_least() -> None:
    comparison = with_speed(example(), {(SINGLE, RATE): (1.5, 1.21, 1.8, "faster")})
    assert found(comparison).first_line == (
        f"Fair. xserv is faster than llama.cpp in {SINGLE} (output throughput is higher, by at least 21%)."
    )


def test_of_several_cells_the_least_bound_holds_for_all() -> None:
    rates = {(SINGLE, RATE): (0.6, 0.5, 0.7, "slower"), (FOUR, RATE): (0.5, 0.4, 0.6, "slower")}
    text = found(with_speed(example(), rates)).lead
    assert text == "xserv is slower than llama.cpp in both cells (output throughput is lower, by at least 30%)."


def test_cells_with_different_verdicts_are_told_apart() -> None:
    rates = {
        (SINGLE, RATE): (2.5, 2.36, 2.7, "faster"),
        (FOUR, RATE): (0.8, 0.7, 0.9, "slower"),
        (EIGHT, RATE): (1.0, 0.9, 1.1, "inconclusive"),
    }
    assert found(with_speed(example(), rates)).lead == (
        f"xserv is faster than llama.cpp in {SINGLE} (output throughput is higher, at least 2.3 times)"
        f" and slower in {FOUR} (by at least 10%); not settled in {EIGHT}."
    )


def test_cells_of_one_workload_are_named_together() -> None:
    rates = {(cell, RATE): (0.6, 0.5, 0.7, "slower") for cell in (SINGLE, FOUR)}
    rates |= {(EIGHT, RATE): (1.0, 0.9, 1.1, "inconclusive")}
    assert (
        "slower than llama.cpp in perf-medium under single and concurrent_4 ("
        in found(with_speed(example(), rates)).lead
    )


def test_a_latency_that_says_something_else_has_a_sentence_of_its_own() -> None:
    rates = {
        (FOUR, RATE): (0.8, 0.7, 0.9, "slower"),
        (FOUR, TTFT): (0.4, 0.3, 0.5, "slower"),
        (FOUR, TPOT): (2.0, 1.6, 2.5, "faster"),
    }
    assert said(with_speed(example(), rates), "Speed") == [
        f"The median TPOT (time per output token) of xserv is shorter in {FOUR} (by at least 37%)."
    ]


@pytest.mark.parametrize(
    ("better", "ratio", "ci", "bound"),
    [
        ("higher", 1.5, [1.21, 1.8], 0.21),
        ("higher", 0.6, [0.5, 0.7], 0.3),
        ("lower", 2.0, [1.6, 2.5], 0.375),
        ("lower", 0.4, [0.3, 0.5], 1.0),
        ("higher", 1.5, None, None),
    ],
)
def test_the_bound_is_the_near_end_of_the_interval_as_a_share_of_the_baseline(
    better: str, ratio: float, ci: list[float] | None, bound: float | None
) -> None:
    row = {"better": better, "speed_ratio": {"b": {"value": ratio, "ci": ci, "verdict": "x"}}}
    assert near_bound(row, "b") == (None if bound is None else pytest.approx(bound))


def test_equal_speed_names_its_margin() -> None:
    text = found(with_speed(example(), {(SINGLE, RATE): (1.0, 0.99, 1.01, "equivalent")})).lead
    assert text == f"xserv is as fast as llama.cpp in {SINGLE} (output throughput equal within 3%)."


def test_open_speed_says_how_many_more_rounds_would_settle_it() -> None:
    comparison = with_speed(example(), {(SINGLE, RATE): (1.05, 0.95, 1.16, "inconclusive")})
    assert found(comparison).lead == (
        f"Whether xserv or llama.cpp is faster is not settled in {SINGLE} (output throughput)."
    )
    assert said(comparison, "Next")[0] == (
        "To settle the speed, run about 10 more rounds (rounds = 13 in the profile, 3 now): that many settle output"
        f" throughput in {SINGLE}."
    )


def test_the_rounds_that_the_scoring_found_necessary_are_the_ones_that_the_report_asks_for() -> None:
    comparison = with_speed(example(), {(SINGLE, RATE): (1.05, 0.95, 1.16, "inconclusive")})
    for row in comparison["performance"]:
        row["speed_ratio"]["xserv"]["needed_rounds"] = 7
    assert said(comparison, "Next")[0].startswith(
        "To settle the speed, run about 4 more rounds (rounds = 7 in the profile"
    )


def test_the_rounds_that_are_needed_grow_with_the_square_of_the_interval() -> None:
    rules = {"margin": [1 / 1.03, 1.03]}
    narrow = {"value": 1.05, "ci": [1.05 / 1.1, 1.05 * 1.1], "rounds": [3, 3]}
    wide = {"value": 1.05, "ci": [1.05 / 1.1**2, 1.05 * 1.1**2], "rounds": [3, 3]}
    assert needed_rounds(narrow, rules) == 12
    assert needed_rounds(wide, rules) == 46
    # A ratio of 1 is settled by an interval inside the margin.
    assert needed_rounds({"value": 1.0, "ci": [1 / 1.06, 1.06], "rounds": [3, 3]}, rules) == 12


def test_one_round_has_no_verdict_word_on_speed_anywhere() -> None:
    comparison = one_round(example())
    comparison["quality"] = comparison["verdict"]["quality"] = comparison["verdict"]["speed"] = []
    first = found(comparison)
    assert first.lead == "No verdict on speed: 1 round of each engine cannot show how much rounds differ; 3 are needed."
    assert said(comparison, "Speed") == [
        "xserv against llama.cpp measured a speed ratio of 0.42× to 1.00× for output throughput in all 5 cells."
    ]
    assert said(comparison, "Next") == [
        "For a verdict on speed, run again with 3 rounds or more (rounds in the profile, --rounds of ab)."
    ]
    # What explains the words themselves is no verdict.
    rest = re.sub(r"above 1 (means that )?the candidate is faster|slower . faster", "", lines(comparison))
    assert not VERDICT_WORDS.search(rest)
    assert 'class="word good"' not in html(comparison) and 'class="word bad"' not in html(comparison)


def test_answers_are_as_good_worse_or_open() -> None:
    comparison = example()
    for row, verdict in zip(comparison["quality"], ("equivalent", "worse"), strict=True):
        row["paired"]["xserv"] |= {"verdict": verdict, "ci": [-0.2, -0.05], "ci_adjusted": [-0.25, -0.03]}
    assert said(comparison, "Answers") == [
        "The answers of xserv, against llama.cpp, are worse on aime2025 (by at least 3 points, 6 of 30 right against"
        " 6 of 30) and as good on gsm8k (49 of 50 right against 48 of 50, equal within 2 points)."
    ]
    assert said(example(), "Answers")[0].startswith(
        "Whether the answers of xserv are as good as those of llama.cpp is not"
    )
    assert "ask 1,011 problems (50 now)" in said(example(), "Next")[0]
    comparison["quality"] = []
    not_compared = ["Not compared: the run asked no workload whose answers are graded."]
    assert said(comparison, "Answers") == not_compared
    # With two candidates the sentence stands once.
    comparison["engines"]["third"] = comparison["engines"]["xserv"]
    assert said(comparison, "Answers") == not_compared


def test_a_void_comparison_counts_the_places_where_a_check_failed() -> None:
    comparison = void_example()
    failed = next(row for row in comparison["audit"] if row["status"] == "fail")
    comparison["audit"] = [failed, failed | {"engine": "xserv"}, failed | {"engine": "xserv", "cell": "elsewhere"}]
    assert said(comparison, "Why")[0].endswith(f"{failed['evidence']}. It failed in 2 other places too.")
    comparison["audit"] = [failed]
    assert said(comparison, "Why")[0].endswith(failed["evidence"])


def test_it_says_whether_it_can_be_trusted() -> None:
    assert said(example(), "Trust") == [
        "No check failed and 247 passed; 6 gave a warning or could not be made: “client and server agree” (5 times) and"
        " “no swapping”."
    ]
    bare = found({"baseline": "a", "engines": {"a": {}}, "run_id": "r", "created": "now"})
    assert bare.state == "Not audited"


def test_one_engine_alone_and_a_red_night_are_not_called_settled() -> None:
    alone = {"baseline": "a", "engines": {"a": {}}, "run_id": "r", "created": "now"}
    assert said(alone, "Next") == [
        "To compare, add a second engine, or give two runs: `enginebench compare RUN OTHER`."
    ]
    red = alone | {"night": {"headline": "REGRESSION: a", "exit_code": 1}}
    assert said(red, "Next")[-1].startswith("Find what changed")


def test_a_void_comparison_says_why_and_nothing_else() -> None:
    void = found(void_example())
    assert void.first_line == (
        "VOID: 2 checks failed (context per slot, not cut at the context), so the figures prove nothing."
    )
    assert {label for label, _ in void.paragraphs} == {"Why", "Next"}
    assert said(void_example(), "Why")[0] == (
        "context per slot (llama.cpp): round 1: each slot has 1,024 tokens; the profile asks for 8,192"
    )


@pytest.mark.parametrize("make", [example, void_example, lambda: one_round(example())])
def test_every_report_begins_with_it(make: Any) -> None:
    comparison = make()
    first = found(comparison)
    assert lines(comparison).startswith(first.first_line)
    assert markdown(comparison).startswith(f"# {first.first_line[:20]}")
    page = html(comparison)
    assert first.lead.split(" (")[0] in page[page.index("<h1") :][:2000]
    assert first.first_line in junit(comparison)[:1500]


def test_figures_that_no_number_of_rounds_would_settle_are_named_as_such() -> None:
    rates = {
        (SINGLE, RATE): (1.05, 0.95, 1.16, "inconclusive"),
        (FOUR, RATE): (1.01, 0.5, 2.0, "inconclusive"),
    }
    assert "; 1 figure would need more than 50." in said(with_speed(example(), rates), "Next")[0]
    del rates[SINGLE, RATE]
    assert said(with_speed(example(), rates), "Next")[0].startswith("More rounds will hardly settle the speed")
