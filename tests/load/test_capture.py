"""What is on disk is whole lines, whatever happens to the process or to the disk."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from load.capture import Capture, CaptureError
from records import Record, read_json, read_records
from tests.load.load import ROOT, run
from tests.load.scripted_server import ScriptedServer, chat


def record(number: int = 0, *, phase: str = "measure", kind: str | None = None, text: str = "hello") -> Record:
    values: dict[str, Any] = {
        "id": str(number),
        "engine": "e",
        "cell": "single.w",
        "round": 1,
        "worker": "local",
        "user": 0,
    }
    values |= {"seq": number, "attempt": 1, "workload": "w", "prompt_id": f"p{number}", "prompt_sha256": "0" * 64}
    values |= {"sample": 0, "phase": phase, "connect_ns": None, "scheduled_ns": None, "sent_ns": 1, "end_ns": 2}
    values |= {"text": text, "status": "error" if kind else "ok", "error": kind and {"kind": kind, "message": "m"}}
    return Record.from_dict(values)


def ids(folder: Path) -> list[str]:
    return [record.id for record in read_records(folder / "requests.jsonl")]


def test_a_record_is_on_disk_as_soon_as_it_is_written(tmp_path: Path) -> None:
    capture = Capture(tmp_path, append=False)
    capture.write(record(1))
    assert ids(tmp_path) == ["1"]


def test_counts_tell_phases_and_kinds_apart(tmp_path: Path) -> None:
    capture = Capture(tmp_path, append=False)
    for one in (record(phase="warmup", kind="empty"), record(), record(phase="drain"), record(kind="busy")):
        capture.write(one)
    assert capture.counts == {
        **{"warmup": 1, "measure": 2, "drain": 1, "ok": 2, "error": 1, "cancelled": 0},
        "errors_by_kind": {"busy": 1},
    }


@pytest.mark.parametrize("torn", ['{"id": "9', '{"id": "' + "x" * 200_000, '{"id"'])
def test_a_line_that_a_kill_cut_is_taken_off_before_the_capture_goes_on(tmp_path: Path, torn: str) -> None:
    first = Capture(tmp_path, append=False)
    first.write(record(1))
    first.close()
    with (tmp_path / "requests.jsonl").open("a") as out:
        out.write(torn)
    second = Capture(tmp_path, append=True)
    second.write(record(2))
    assert ids(tmp_path) == ["1", "2"]


def test_a_capture_of_nothing_but_a_torn_line_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").write_text('{"id"')
    Capture(tmp_path, append=True).write(record(1))
    assert ids(tmp_path) == ["1"]


def test_without_append_an_older_capture_is_set_aside_and_kept(tmp_path: Path) -> None:
    for number in range(3):
        Capture(tmp_path, append=False).write(record(number))
    assert ids(tmp_path) == ["2"]
    assert sorted(path.name for path in tmp_path.glob("requests.*")) == [
        *("requests.jsonl", "requests.partial-1.jsonl", "requests.partial-2.jsonl"),
    ]


def test_text_of_any_kind_stays_on_its_line(tmp_path: Path) -> None:
    text = "a\nb\u2028c\x85d\r\ud83de\0"
    Capture(tmp_path, append=False).write(record(text=text))
    assert [one.text for one in read_records(tmp_path / "requests.jsonl")] == [text]


FULL_DISK = """
import sys
from pathlib import Path
from typing import Any
from load.capture import Capture, CaptureError
from tests.load.test_capture import record
capture = Capture(Path(sys.argv[1]), append=False)
for number in range(1000):
    try:
        capture.write(record(number, text="x" * 700))
    except CaptureError as error:
        print(capture.counts["measure"], error)
        break
"""


def limit(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_full_disk_leaves_whole_lines_and_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        preexec_fn=lambda: limit(10_000),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    counted, _, message = done.stdout.partition(" ")
    assert int(counted) == len(ids(tmp_path)) > 3
    assert (tmp_path / "requests.jsonl").read_bytes().endswith(b"\n")
    assert "the earlier records are kept" in message


def test_a_disk_that_fills_up_ends_the_run_with_one_line_and_keeps_what_was_written(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    # The driver's way into a limit: a shell that sets it and becomes the load process.
    with ScriptedServer(lambda asked: [chat(["x" * 500] * 4)]) as server:
        argv = ["bash", "-c", 'ulimit -f 32; exec "$@"', "-", sys.executable, "-m", "locust"]
        argv += ["-f", str(ROOT / "locustfiles" / "concurrent_4.py"), "--headless", "--host", server.url]
        argv += ["--capture-dir", str(folder), "--requests", "400"]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert len(ids(folder)) > 5
    assert "Traceback" not in done.stderr
    assert done.stderr.count("the earlier records are kept") == 1
    scenario = read_json(folder / "scenario.json")
    assert scenario["complete"] is False
    assert "requests.jsonl" in scenario["incomplete_reason"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with ScriptedServer(lambda asked: [chat(["a"])]) as server:
        outcome = run("single", server.url, tmp_path / "file" / "out", "--requests", "1")
    assert outcome.code == 2
    assert "--capture-dir" in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert not server.asked


def test_a_folder_that_is_gone_while_writing_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "requests.jsonl").mkdir()
    with pytest.raises(CaptureError, match="requests"):
        Capture(tmp_path, append=True)


def test_the_scenario_is_replaced_as_a_whole(tmp_path: Path) -> None:
    capture = Capture(tmp_path, append=False)
    capture.write_scenario(complete=False)
    capture.write_scenario(complete=True)
    assert json.loads((tmp_path / "scenario.json").read_text())["complete"] is True
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
