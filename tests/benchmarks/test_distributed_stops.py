"""What a stop of a distributed run has lost is told by the server's log and the records."""

from __future__ import annotations

from pathlib import Path

from benchmarks.distributed_stops import Stop, compare
from records import Record


def record(stamp: int, *, status: str = "ok") -> str:
    made = Record(
        id=str(stamp), engine="e", cell="s.w", round=1, worker="w", user=0, seq=0, attempt=1, workload="w",
        prompt_id="p", prompt_sha256="0", sample=0, phase="measure", connect_ns=None, scheduled_ns=None, sent_ns=1,
        end_ns=9, text=f" {stamp:018d} {stamp + 1:018d}", status=status,
    )  # fmt: skip
    return made.to_json_line()


def test_what_was_answered_and_is_no_good_record_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(record(100) + record(200, status="error"))
    rows = [{"first_ns": stamp, "finished": int(stamp != 400)} for stamp in (100, 200, 300, 400)]
    # 200 is there as a failure, 300 is not there at all, and 400 was never answered in full.
    assert compare({"requests": rows}, path) == Stop(answered=3, recorded=1, lost=2)


def test_a_stop_at_which_nothing_was_answered_proves_nothing(tmp_path: Path) -> None:
    assert compare({"requests": []}, tmp_path / "none.jsonl").note == "nothing was answered"
