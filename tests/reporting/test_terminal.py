import re

import pytest

from reporting.format import quantity, ratio_with_interval
from reporting.terminal import lines, summary
from reporting.view import View
from tests.reporting.report_builders import example, failed_request, poisoned, renamed, void_example

OURS = re.compile(r"\x1b\[[0-9;]*m")


def test_plain_lines_have_one_fact_each_and_no_escape() -> None:
    told = lines(void_example()).splitlines()
    assert told[0].startswith("VOID: 2 checks failed")
    assert any(line.startswith("speed  single.perf-medium  Output throughput  llama.cpp 95.1 tok/s") for line in told)
    assert any(line.startswith("answers  gsm8k  50 problems  llama.cpp 48/50 right") for line in told)
    assert any(line.startswith("audit  fail  context per slot") for line in told)
    assert not any("\x1b" in line for line in told)


def test_no_color_praises_or_blames_in_a_void_comparison() -> None:
    red = re.compile(r"\x1b\[31m[^\x1b]*slower")
    assert red.search(summary(example(), width=110, plain=False))
    assert not red.search(summary(void_example(), width=110, plain=False))


def test_the_evidence_of_a_check_is_whole() -> None:
    comparison = example()
    evidence = "other programs slowed this engine's CPU work down; " + "a measured fact, " * 12 + "the end"
    comparison["audit"][0] |= {"status": "warn", "evidence": evidence}
    assert evidence in lines(comparison)


def test_a_pipe_gets_plain_lines() -> None:
    assert summary(example()) == lines(example())


def test_a_terminal_gets_a_table_that_fits() -> None:
    shown = summary(failed_request(example()), width=110, plain=False)
    bare = OURS.sub("", shown)
    assert "\x1b[" in shown
    assert "0.595× [0.591, 0.600] slower" in bare
    assert "1 request failed" in bare
    assert max(len(line) for line in bare.splitlines()) <= 110


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_every_width_has_every_figure_interval_and_verdict_whole(width: int) -> None:
    comparison = renamed(example(), {"xserv": "llama-1slot-long-name", "llama.cpp": "llama-4slots-long-name"})
    shown = OURS.sub("", summary(comparison, width=width, plain=False)).splitlines()
    assert max(len(line) for line in shown) <= width
    for row in View(comparison).deciding_rows:
        told = ratio_with_interval(row["speed_ratio"]["llama-1slot-long-name"])
        assert any(told in line for line in shown), told
        for engine in row["engines"].values():
            assert any(quantity(engine["value"], row["unit"]) in line for line in shown)
    for cell in View(comparison).cells:
        assert any(line.startswith(cell) for line in shown)


def test_a_wide_terminal_has_one_line_per_figure_and_a_narrow_one_stacks() -> None:
    wide, middle, narrow = (
        [line for line in OURS.sub("", summary(example(), width=w, plain=False)).splitlines() if "0.595× [" in line]
        for w in (120, 90, 60)
    )
    assert wide[0].split() == [
        "single.perf-medium", "Output", "throughput", "95.1", "tok/s", "56.6", "tok/s",
        "0.595×", "[0.591,", "0.600]", "slower",
    ]  # fmt: skip
    assert middle[0].startswith("Output throughput") and "95.1 tok/s" in middle[0]
    assert narrow[0].strip() == "xserv 56.6 tok/s  0.595× [0.591, 0.600] slower"


def test_the_first_line_stands_again_at_the_end_of_what_is_higher_than_the_screen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    first = "Fair. xserv is slower than llama.cpp"
    for height, times in (("10", 2), ("500", 1)):
        monkeypatch.setenv("LINES", height)
        shown = OURS.sub("", summary(example(), plain=False))
        assert shown.count(first) == times
    monkeypatch.setenv("LINES", "10")
    assert first in "".join(OURS.sub("", summary(example(), plain=False)).splitlines()[-3:])


def test_hostile_strings_send_nothing_to_the_terminal() -> None:
    for plain in (True, False):
        shown = OURS.sub("", summary(poisoned(void_example()), width=100, plain=plain))
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)
