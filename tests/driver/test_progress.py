"""What is shown while a cell runs is counted from its capture."""

from __future__ import annotations

import dataclasses
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from driver.run.progress import CaptureTail, Display
from records import Record
from records.wording import count


def line(**changes: Any) -> str:
    """A record of 50 tokens, 20 ms apart, the first after 10 ms."""
    arrivals = [1 + (10 + 20 * i) * 10**6 for i in range(50)]
    record = Record(
        id="i", engine="a", cell="single.perf", round=1, worker="w", user=0, seq=0, attempt=1, workload="perf",
        prompt_id="p", prompt_sha256="0", sample=0, phase="measure", connect_ns=None, scheduled_ns=None, sent_ns=1,
        end_ns=1 + 10**9, first_token_ns=arrivals[0], last_token_ns=arrivals[-1], chunk_ns=arrivals,
        chunk_chars=[1] * 50, completion_tokens=50,
    )  # fmt: skip
    return dataclasses.replace(record, **changes).to_json_line()


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


def test_a_terminal_gets_one_table_of_all_cells_that_fits(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(line() * 3 + line(status="error"))
    for width in (60, 80, 120):
        display = Display()
        display.live, display.cells_total = True, 2
        out = StringIO()
        display._console = Console(file=out, width=width, height=20, force_terminal=True)
        with display:
            for label in ("llama-4slots r1 concurrent_4.perf-short", "llama-1slot r1 concurrent_4.perf-short"):
                with display.cell(label, 4, path) as cell:
                    cell.tick()
        rows = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue()).replace("\r", "\n").splitlines()
        assert max(len(row) for row in rows) <= width
        newest = rows[max(i for i, row in enumerate(rows) if row.startswith("cell (2 of 2)")) :]
        assert any(row.startswith("llama-1slot r1 concurrent_4.perf-short") for row in newest)
        figures = (
            ["4/4", "10", "20", "150", "1"]
            if width >= 100
            else ["4/4", "requests,", "TTFT", "10", "ms,", "150", "tok/s,", "1", "failed,"]
        )
        assert any(row.split()[-len(figures) - 1 : -1] == figures for row in newest), newest


def test_conversations_show_their_first_and_last_turn(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    talk = [line(turn=turn, turns=3, conversation="c", first_token_ns=1 + turn * 10**7) for turn in (1, 2, 3)]
    path.write_text("".join(talk))
    tail = CaptureTail(path)
    tail.read()
    assert tail.figures().startswith("TTFT 20 ms (turn 1 10 ms, turn 3 30 ms), ")
