"""`compare` and `report` take the capture folder of plain `locust`, marked as without an engine's read-back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driver.errors import BenchError
from driver.run.run import open_run
from records import Record, RunFolder
from scoring.compare import compare, compare_runs
from scoring.runs import load_run


def record(number: int, engine: str) -> Record:
    sent = number * 1_000_000_000
    stamps = [sent + 50_000_000 + n * 10_000_000 for n in range(8)]
    fields: dict[str, object] = {
        **{"id": str(number), "engine": engine, "cell": "single.w", "round": 1, "worker": "local", "user": 0},
        **{"seq": number, "attempt": 1, "workload": "w", "prompt_id": f"p{number}", "prompt_sha256": "0" * 64},
        **{"sample": 0, "phase": "measure", "connect_ns": None, "scheduled_ns": None, "sent_ns": sent},
        **{"end_ns": stamps[-1], "first_token_ns": stamps[0], "last_token_ns": stamps[-1], "chunk_ns": stamps},
        **{"chunk_chars": [1] * 8, "completion_tokens": 8, "text": "a" * 8, "finish_reason": "length", "done": True},
    }
    return Record.from_dict(fields)


def capture(folder: Path, engine: str) -> RunFolder:
    folder.mkdir()
    (folder / "requests.jsonl").write_text("".join(record(n, engine).to_json_line() for n in range(20)))
    scenario = {"engine": engine, "cell": "single.w", "scenario": "single", "workload": "w", "round": 1}
    (folder / "scenario.json").write_text(json.dumps({**scenario, "complete": True, "asked": {"users": 1}}))
    return RunFolder(folder)


def test_a_capture_folder_is_compared_and_marked(tmp_path: Path) -> None:
    folder = capture(tmp_path / "mine", "a")
    assert open_run(folder.path) == folder
    comparison = compare(folder, created="20260101T000000Z")
    assert {row["cell"] for row in comparison["performance"]} == {"single.w"}
    [row] = [row for row in comparison["audit"] if row["check"] == "engine read back"]
    assert (row["engine"], row["status"]) == ("a", "unknown")
    assert "plain locust" in row["evidence"]


def test_two_capture_folders_are_compared_with_each_other(tmp_path: Path) -> None:
    folders = [capture(tmp_path / name, name) for name in ("a", "b")]
    comparison = compare_runs(*folders, created="20260101T000000Z")
    assert comparison["engines"] and {"a@a", "b@b"} == {
        row["engine"] for row in comparison["audit"] if row["check"] == "engine read back"
    }


def test_records_without_a_scenario_are_refused_in_one_line(tmp_path: Path) -> None:
    folder = capture(tmp_path / "mine", "a")
    (folder.path / "scenario.json").unlink()
    with pytest.raises(ValueError, match=r"has no scenario\.json"):
        load_run(folder)
    with pytest.raises(BenchError, match=r"no run\.json there"):
        open_run(tmp_path)
