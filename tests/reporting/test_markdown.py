import itertools
import re

import pytest

from reporting.markdown import LIMIT_BYTES, markdown
from tests.reporting.report_builders import example, failed_request, poisoned, renamed, void_example


def table(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table after a heading, its rule left out."""
    after = text.partition(f"## {heading}")[2]
    lines = re.search(r"(?:^\|.*\n)+", after, re.MULTILINE)
    assert lines
    rows = [line.strip("| \n").split(" | ") for line in lines[0].splitlines()]
    return [rows[0], *rows[2:]]


def test_a_void_comparison_says_so_in_its_first_line() -> None:
    first = markdown(void_example()).splitlines()[0]
    assert first.startswith("# VOID: 2 checks failed (context per slot, ")
    assert "VOID" not in markdown(example())


def test_the_speed_table_holds_the_figures_of_the_json() -> None:
    rows = table(markdown(example()), "Speed")
    assert rows[0] == ["scenario / workload", "metric", "llama.cpp (baseline)", "xserv", "speed ratio"]
    assert rows[1] == [
        "single / perf-medium", "Output throughput", "95.1 tok/s", "56.6 tok/s", "0.595× [0.591, 0.600] slower",
    ]  # fmt: skip
    assert ["concurrent_4 / perf-medium", "TTFT p50"] in [row[:2] for row in rows]


def test_the_answers_table_holds_the_figures_of_the_json() -> None:
    rows = table(markdown(example()), "Answers")
    assert rows[1][:2] == ["gsm8k", "50"]
    assert rows[1][2].startswith("48/50 = 96.0% [86.5, 98.9]")
    assert rows[1][4].startswith("+2.0 points [−7.3, +12.5]; 1 flip, p = 1; inconclusive")


def test_checks_that_did_not_pass_come_first_and_the_others_are_counted() -> None:
    comparison = void_example()
    comparison["audit"] = [row for row in comparison["audit"] if row["check"] == "context per slot"]
    comparison["audit"] += [
        {"check": "drift", "engine": "xserv", "cell": "single.gsm8k", "status": "warn", "evidence": "3% slower"},
        {"check": "gpu alone", "engine": "xserv", "cell": None, "status": "not_applicable", "evidence": "no GPU"},
    ]
    text = markdown(comparison)
    assert [row[0] for row in table(text, "Audit: was it fair?")[1:]] == ["**FAIL**", "warn"]
    assert "Passed: context per slot (1)." in text
    assert "Not applicable in some cell: gpu alone." in text


def test_what_failed_is_counted_by_kind() -> None:
    text = markdown(failed_request(example(), 3, message="no byte for 30 s"))
    told = ["llama.cpp", "single.perf-medium", "silence_timeout", "3", "no byte for 30 s"]
    assert table(text, "What failed")[1] == told
    assert "No request failed." in markdown(example())


def test_what_ran_and_how_to_repeat_it() -> None:
    text = markdown(example())
    for told in ("b9371-f12cc6d0", "8,192 tokens", "dddddddddddd", "temperature 0.0, top_p 1.0", "thinking: off"):
        assert told in text
    assert "```\nenginebench run profiles/built.toml\nenginebench compare reference\n```" in text


@pytest.mark.parametrize("rows", [1, 400])
def test_it_always_fits_a_pull_request_comment(rows: int) -> None:
    comparison = poisoned(void_example())
    for key in ("performance", "audit", "quality", "problems", "breakdown"):
        comparison[key] = comparison[key] * rows
    text = markdown(failed_request(comparison, 1000, kind="x" * 10_000, message="y" * 10_000))
    assert len(text.encode()) < LIMIT_BYTES
    assert text.startswith("# VOID")


def test_a_megabyte_from_a_model_is_cut() -> None:
    assert len(markdown(poisoned(example(), "A" * 1_000_000)).encode()) < LIMIT_BYTES


def test_hostile_strings_are_inert() -> None:
    text = markdown(poisoned(void_example()))
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert "<script" not in outside
    assert not re.search(r"(?<!\\)\]\(", outside)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "https://" not in outside
    for before, line in itertools.pairwise(outside.splitlines()):
        if before.startswith("|") and line.startswith("|"):
            assert line.count("|") == before.count("|"), "a cell's text added or removed a column"
    assert text.count("```") == 2


def test_hostile_names_are_inert() -> None:
    text = markdown(renamed(void_example(), {"xserv": "a|b<script>\n# x", "single.gsm8k": "`|`"}))
    assert "<script>" not in text
    assert "\n# x" not in text
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| single / perf-medium")}
    assert widths == {6}


def test_a_comparison_with_little_in_it_is_reported() -> None:
    text = markdown({"baseline": "a", "engines": {"a": {}}, "run_id": "r", "created": "now"})
    assert "No performance cell was measured." in text
    assert "nothing shows that this comparison was fair" in text


def test_several_candidates_each_have_their_columns() -> None:
    comparison = example()
    comparison["engines"]["third"] = comparison["engines"]["xserv"]
    for row in comparison["performance"]:
        row["engines"]["third"] = {"value": 10.0, "ci": None, "n": 1, "rounds": {"1": 10.0}}
        row["speed_ratio"]["third"] = {"value": 2.0, "ci": [1.9, 2.1], "verdict": "faster", "method": "welch"}
    rows = table(markdown(comparison), "Speed")
    assert rows[0][3:] == ["xserv", "speed ratio", "third", "speed ratio"]
    assert rows[1][5:] == ["10.0 tok/s", "2.00× [1.90, 2.10] faster"]
