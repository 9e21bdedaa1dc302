"""Why a load did not come to its end, in the words of whoever knows best; and what an engine's death makes of it."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driver.profile.sections import Cell
from driver.run.engine_deaths import mark_complete, mark_engine_gone, name_cut_requests
from driver.run.launcher import ROOT, Load, Locust, _why_incomplete
from records import CellFolder, ErrorKind, Record, read_records


def record(number: int, *, error: str | None = None, phase: str = "measure") -> Record:
    return Record(
        id=f"q{number}", engine="a", cell="single.x", round=1, worker="w", user=0, seq=number, attempt=1, workload="x",
        prompt_id=f"p{number}", prompt_sha256="", sample=0, phase=phase, connect_ns=None, scheduled_ns=None,
        sent_ns=10 * number, end_ns=10 * number + 5, status="error" if error else "ok",
        error={"kind": error, "message": "m"} if error else None,
    )  # fmt: skip


def captured(path: Path, *records: Record, **scenario: object) -> CellFolder:
    folder = CellFolder(path)
    folder.requests.write_text("".join(each.to_json_line() for each in records))
    folder.scenario.write_text(json.dumps({"complete": False, "incomplete_reason": "not ended", **scenario}))
    return folder


@pytest.mark.parametrize(
    ("code", "reason", "log", "expected"),
    [
        (1, "the disk is full", "a table", "the disk is full"),
        (1, "not ended", "[x] vm/ERROR/enginebench: out of luck: now\na table", "out of luck: now"),
        (1, "not ended", "a table\n\n", "a table"),
        # The folder's scenario.json is that of an earlier attempt, for this one never began.
        (2, "stopped by its user", "usage\nenginebench: --steps x: numbers were expected\n", "--steps x: numbers were"),
        (
            2,
            "",
            "usage\nx.py: error: unrecognized arguments: --nope\nDid you mean '--otel'?",
            "unrecognized arguments: --n",
        ),
        (-9, "not ended", "", "SIGKILL"),
    ],
)
def test_the_reason_comes_from_whoever_knows_best(
    tmp_path: Path, code: int, reason: str, log: str, expected: str
) -> None:
    folder = captured(tmp_path, incomplete_reason=reason)
    (tmp_path / "load.log").write_text(log)
    assert expected in _why_incomplete(folder, code, tmp_path / "load.log")


def test_only_the_failures_at_the_end_are_laid_to_an_engine_that_died(tmp_path: Path) -> None:
    kinds = [ErrorKind.ABORTED, None, ErrorKind.ABORTED, ErrorKind.CONNECT_FAILED]
    folder = captured(tmp_path, *(record(n, error=kind) for n, kind in enumerate(kinds)), complete=True)
    assert mark_engine_gone(folder) == 2
    found = [each.error["kind"] if each.error else None for each in read_records(folder.requests)]
    assert found == [ErrorKind.ABORTED, None, ErrorKind.ENGINE_GONE, ErrorKind.ENGINE_GONE]
    scenario = json.loads(folder.scenario.read_text())
    assert scenario["complete"] is False and scenario["incomplete_reason"] == "the engine died"
    assert scenario["counts"]["errors_by_kind"] == {"aborted": 1, "engine_gone": 2}


@pytest.mark.parametrize(("stop_reason", "renamed"), [(None, 1), ("the run was stopped", 0), ("asked", 0)])
def test_what_a_resumed_cell_forgives_is_the_end_of_a_driver_that_was_killed(
    tmp_path: Path, stop_reason: str | None, renamed: int
) -> None:
    folder = captured(tmp_path, record(0, error=ErrorKind.SILENCE_TIMEOUT), record(1, error=ErrorKind.ABORTED))
    assert name_cut_requests(folder, [{"stop_reason": stop_reason}]) == renamed
    kinds = [each.error["kind"] for each in read_records(folder.requests) if each.error]
    # A server that hung was not cut by anybody's end.
    assert kinds == [ErrorKind.SILENCE_TIMEOUT, ErrorKind.ENGINE_GONE if renamed else ErrorKind.ABORTED]


@pytest.mark.parametrize("name", ["drain_timeout", "drain-timeout"])
def test_the_load_has_the_time_to_drain_that_its_cell_gives_it(name: str) -> None:
    for options, grace_s in (({}, 15.0), ({name: 60}, 65.0)):
        locust = load_of(options=options).locust()
        assert locust.stop_grace_s == grace_s
        if options:
            assert locust.argv()[locust.argv().index("--drain-timeout") + 1] == "60"


def test_request_extras_travel_in_the_environment_and_not_on_the_command_line() -> None:
    load = replace(load_of(), request_extras={"user": "SECRET1"})
    locust = load.locust()
    assert "SECRET1" not in " ".join(locust.argv())
    options = parsed(locust)
    assert json.loads(options.request_extras) == {"user": "SECRET1"}


def load_of(**cell: object) -> Load:
    values = {"scenario": "single", "workload": "arithmetic", "max_tokens": 8} | cell
    return Load(Cell.model_validate(values), CellFolder(Path()), "a", 1, "", None, "", {}, 1)


def parsed(locust: Locust) -> Any:
    """The options as Locust itself reads them."""
    code = (
        "import sys, json, load.plugin; load.plugin.install(); from locust.argument_parser import parse_options;"
        "options = parse_options(json.loads(sys.argv[1]));"
        "print('\\n' + json.dumps({'request_extras': options.request_extras}))"
    )
    command = [sys.executable, "-c", code, json.dumps(locust.argv()[3:])]
    done = subprocess.run(command, env=locust.env(), cwd=ROOT, capture_output=True, text=True, check=True)
    return argparse.Namespace(**json.loads(done.stdout.splitlines()[-1]))


def test_a_load_that_was_whole_when_its_engine_died_stays_complete(tmp_path: Path) -> None:
    folder = captured(tmp_path, record(0), record(1), complete=True)
    assert mark_engine_gone(folder) == 0
    assert folder.complete


def test_what_was_killed_after_its_last_record_is_complete_with_its_counts(tmp_path: Path) -> None:
    folder = captured(tmp_path, record(0, phase="warmup"), record(1), record(2, error=ErrorKind.EMPTY))
    assert not folder.complete
    mark_complete(folder)
    assert folder.complete
    counts = json.loads(folder.scenario.read_text())["counts"]
    assert (counts["warmup"], counts["measure"], counts["ok"], counts["error"]) == (1, 2, 1, 1)
