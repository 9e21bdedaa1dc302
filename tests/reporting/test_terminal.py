import re

from reporting.terminal import lines, summary
from tests.reporting.report_builders import example, failed_request, poisoned, void_example

OURS = re.compile(r"\x1b\[[0-9;]*m")


def test_plain_lines_have_one_fact_each_and_no_escape() -> None:
    told = lines(void_example()).splitlines()
    assert told[0].startswith("VOID: 2 checks failed")
    assert any(line.startswith("speed  single.perf-medium  Output throughput  llama.cpp 95.1 tok/s") for line in told)
    assert any(line.startswith("answers  gsm8k  n 50  llama.cpp 48/50") for line in told)
    assert any(line.startswith("audit  fail  context per slot") for line in told)
    assert not any("\x1b" in line for line in told)


def test_a_pipe_gets_plain_lines() -> None:
    assert summary(example()) == lines(example())


def test_a_terminal_gets_a_table_that_fits() -> None:
    shown = summary(failed_request(example()), width=110, plain=False)
    bare = OURS.sub("", shown)
    assert "\x1b[" in shown
    assert "0.594× [0.592, 0.597] slower" in bare
    assert "1 request failed" in bare
    assert max(len(line) for line in bare.splitlines()) <= 110


def test_hostile_strings_send_nothing_to_the_terminal() -> None:
    for plain in (True, False):
        shown = OURS.sub("", summary(poisoned(void_example()), width=100, plain=plain))
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)
