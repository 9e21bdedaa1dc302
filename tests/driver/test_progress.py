"""What is shown while a cell runs is counted from its capture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driver.run.progress import CaptureTail, Display
from records.wording import count


def line(**changes: object) -> str:
    record = {"phase": "measure", "status": "ok", "sent_ns": 0, "first_token_ns": 10**7, "end_ns": 10**9}
    return json.dumps({**record, "sent_ns": 1, "completion_tokens": 50, **changes}) + "\n"


def test_measured_requests_are_counted_as_they_come_and_a_line_half_written_waits(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    tail = CaptureTail(path)
    tail.read()
    assert (tail.done, tail.figures()) == (0, "")
    path.write_text(line(phase="warmup") + line() + line()[:20])
    tail.read()
    assert (tail.done, tail.errors) == (1, 0)
    assert tail.figures() == "TTFT 10 ms, 50 tok/s"
    path.write_text(line(phase="warmup") + line() + line(status="error"))
    tail.read()
    assert (tail.done, tail.errors) == (2, 1)
    assert tail.figures().endswith(", 1 failed")


def test_a_cell_that_goes_on_counts_only_what_is_asked_now(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(line() * 4)
    tail = CaptureTail(path)
    tail.skip()
    with path.open("a") as more:
        more.write(line() * 2)
    tail.read()
    assert tail.done == 2


def test_one_is_not_many() -> None:
    assert [count(n, "cell") for n in (0, 1, 2, 1000)] == ["0 cells", "1 cell", "2 cells", "1,000 cells"]


def test_a_line_that_quotes_an_engine_moves_no_cursor_and_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    Display().say("a: \x1b[2Jgone\rand\nback [red]not red[/red] :warning: \u202eright to left")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("a: ␛[2Jgone␍and␤back [red]not red[/red] :warning: ⟨U+202E⟩right to left")
