"""Hooks: real commands beside real engines; they end in time with their children, and disturb no compared figure."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from driver.ab import Asked, profile_values
from driver.cli import cli
from driver.profile.read import parse_profile
from driver.profile.sections import Hooks
from driver.regressions import regressed_cells
from driver.run.hooks import Target, around
from driver.run.progress import Display
from records import CellFolder, RunFolder, read_json, write_json
from scoring.compare import compare
from tests.builders import RunBuilder, Speed
from tests.driver.bench import PERF, Bench, until

SHELL = "sh -c {!r}"


def target(folder: Path, number: int = 1) -> Target:
    return Target("a", "b", 17, 8080, "http://127.0.0.1:8080", "single.x", number, CellFolder(folder))


def notes(folder: Path) -> list[dict[str, Any]]:
    return [dict(note) for note in read_json(folder / "hooks.json")["hooks"]]


def hooks(**values: Any) -> Hooks:
    return Hooks.model_validate({key: shlex.split(v) if isinstance(v, str) else v for key, v in values.items()})


def test_hooks_get_the_engine_and_the_cell_in_their_environment_and_leave_their_output(tmp_path: Path) -> None:
    names = "HOOK ENGINE BASELINE ENGINE_PID PORT URL CELL ROUND FOLDER"
    say = "sh -c '" + "; ".join(f'echo "$ENGINEBENCH_{name}"' for name in names.split()) + "'"
    with around(hooks(before_cell=say, after_cell=say, during_cell=say), target(tmp_path), Display(quiet=True)):
        until(lambda: (tmp_path / "during_cell.log").read_text().count("\n") == 9, 10)
    for hook in ("before_cell", "during_cell", "after_cell"):
        said = (tmp_path / f"{hook}.log").read_text().splitlines()
        assert said == [hook, "a", "b", "17", "8080", "http://127.0.0.1:8080", "single.x", "1", str(tmp_path)]
    assert [(note["hook"], note["exit_code"], note["error"]) for note in notes(tmp_path)] == [
        ("before_cell", 0, None),
        ("during_cell", 0, None),
        ("after_cell", 0, None),
    ]


def test_a_hook_that_does_not_end_is_ended_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    # The child leaves the session and ignores SIGTERM.
    command = f'sh -c \'trap "" TERM; setsid sh -c "trap \\"\\" TERM; echo \\$\\$ >> {pids}; sleep 100" & wait\''
    with around(hooks(before_cell=command, timeout_s=1), target(tmp_path), Display(quiet=True)):
        (pid,) = map(int, pids.read_text().split())
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    (note,) = notes(tmp_path)
    assert note["error"] == "was stopped after 1 s"


def test_what_a_hook_leaves_in_the_background_is_gone_before_the_load_begins(tmp_path: Path) -> None:
    command = f"sh -c 'sleep 100 & echo $! > {tmp_path}/pid'"
    with around(hooks(before_cell=command), target(tmp_path), Display(quiet=True)):
        pid = int((tmp_path / "pid").read_text())
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_hook_beside_the_load_is_interrupted_at_its_end_and_may_write_its_results(tmp_path: Path) -> None:
    command = f"{sys.executable} -c " + shlex.quote(
        "import time, pathlib, os\nout = pathlib.Path(os.environ['ENGINEBENCH_FOLDER'])\n"
        "try:\n (out / 'up').touch(); time.sleep(100)\nexcept KeyboardInterrupt:\n (out / 'profile').write_text('x')"
    )
    with around(hooks(during_cell=command), target(tmp_path), Display(quiet=True)):
        assert until(lambda: (tmp_path / "up").exists(), 20)
        assert not (tmp_path / "profile").exists()
    assert (tmp_path / "profile").read_text() == "x"
    (note,) = notes(tmp_path)
    assert (note["hook"], note["exit_code"]) == ("during_cell", 0)


def test_a_hook_beside_the_load_runs_in_its_round_only(tmp_path: Path) -> None:
    with around(hooks(during_cell="sleep 9", during_round=2), target(tmp_path), Display(quiet=True)):
        assert not (tmp_path / "hooks.json").exists()


@pytest.mark.parametrize(
    ("command", "error", "names"),
    [
        ("false", "ended with exit code 1", ["before_cell", "after_cell"]),
        ("gone", "No such file or directory: gone", ["before_cell", "during_cell", "after_cell"]),
    ],
)
def test_a_hook_that_fails_is_one_line_and_stops_nothing(
    command: str, error: str, names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = []
    for name in names:
        with around(hooks(**{name: command}), target(tmp_path), Display(quiet=False)):
            inside.append(name)
        assert notes(tmp_path)[0]["error"] == error
    told = capsys.readouterr().err.splitlines()
    assert inside == names and len(told) == len(names) and all("a r1 single.x: hook " in line for line in told)


def test_a_run_calls_its_hooks_and_marks_the_round(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    more = (
        "[hooks]\n"
        "before_cell = ['sh', '-c', 'kill -0 $ENGINEBENCH_ENGINE_PID && ls $ENGINEBENCH_FOLDER']\n"
        "during_cell = ['sh', '-c', 'sleep 100']\n"
        "after_cell = ['sh', '-c', 'kill -0 $ENGINEBENCH_ENGINE_PID && wc -l < $ENGINEBENCH_FOLDER/requests.jsonl']\n"
    )
    bench.run("run", bench.profile(more=more), "--run-id", "r")
    folder = bench.cell(PERF).path
    assert "requests.jsonl" not in (folder / "before_cell.log").read_text().split()
    assert int((folder / "after_cell.log").read_text()) == 12
    assert [note["exit_code"] for note in notes(folder)] == [0, 0, 0]
    (report,) = bench.folder().path.glob("comparison-*.json")
    comparison = read_json(report)
    (row,) = (row for row in comparison["audit"] if row["check"] == "undisturbed" and row["cell"] == PERF)
    assert (row["status"], row["evidence"]) == (
        "warn",
        "round 1: the hook during_cell ran beside the load, and there is no other round to compare",
    )
    assert not [row for row in comparison["performance"] if row["cell"] == PERF]


def test_a_round_with_a_hook_beside_it_is_not_compared(tmp_path: Path) -> None:
    cell = "single.perf-short"
    run = RunBuilder(rounds=4, seed=3)
    run.perf(cell, {name: Speed(20, 10, requests=6, tokens=16) for name in ("base", "cand")})
    folder = run.write(tmp_path / "run")
    note = {"hooks": [{"hook": "during_cell", "exit_code": 0, "error": None}]}
    for engine in ("base", "cand"):
        write_json(folder.round(engine, 2).cell(cell).hooks, note)
        # Only the figures of the round without a compared speed may be off.
    comparison = compare(folder, created="x")
    row = next(row for row in comparison["performance"] if row["metric"] == "output_tok_s")
    assert [sorted(figure["rounds"]) for figure in row["engines"].values()] == [["1", "3", "4"]] * 2
    rows = [row for row in comparison["audit"] if row["check"] == "undisturbed"]
    assert {row["status"] for row in rows} == {"warn"} and "round 2" in rows[0]["evidence"]


def test_a_regression_is_a_slower_or_worse_verdict_of_a_comparison_that_is_not_void() -> None:
    comparison: dict[str, Any] = {
        "verdict": {"void": False},
        "performance": [
            {"cell": "c", "speed_ratio": {"x": {"verdict": "slower"}, "y": {"verdict": "faster"}}},
            {"cell": "c", "speed_ratio": {"x": {"verdict": "slower"}, "y": {"verdict": None}}},
        ],
        "quality": [{"cell": "q", "paired": {"x": {"verdict": "worse"}, "y": {"verdict": "equivalent"}}}],
    }
    assert regressed_cells(comparison) == {"x": ["c", "q"]}
    assert regressed_cells(comparison | {"verdict": {"void": True}}) == {}


def test_the_option_hook_makes_the_section_and_one_more_round() -> None:
    asked = Asked(("s {port}", "t {port}"), rounds=3, hooks={"during_cell": "sh -c 'a b'", "after_cell": "c"})
    profile = parse_profile(profile_values(asked), "ab")
    assert (profile.rounds, profile.hooks.during_cell, profile.hooks.after_cell) == (4, ("sh", "-c", "a b"), ("c",))
    assert parse_profile(profile_values(Asked(("s {port}", "t {port}"), hooks={"after_cell": "c"})), "ab").rounds == 3


def test_an_unknown_hook_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["ab", "s {port}", "t {port}", "--hook", "at_night=x", "--dry-run"]) == 2
    assert "expected NAME=CMD, NAME one of before_cell" in capsys.readouterr().err


@pytest.mark.engines
def test_a_slower_engine_is_started_once_more_with_the_hook_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(__file__).resolve().parents[2]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(root))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    pacing = f"{sys.executable} -m engines.pacing_server --host {{host}} --port {{port}} --ttft-ms 2 --tokens 1000"
    hook = "sh -c 'echo $ENGINEBENCH_ENGINE; kill -0 $ENGINEBENCH_ENGINE_PID && sleep 100'"
    options = ["--users", "1", "--time", "40s", "--run-id", "r", "--hook", f"on_regression={hook}", "--json"]
    names = ["--name", "fast", "--name", "slow"]
    assert cli(["ab", f"{pacing} --interval-ms 5", f"{pacing} --interval-ms 10", *names, *options]) == 0
    told = capsys.readouterr()
    assert "on_regression: 1 cell once more" in told.err
    assert json.loads(told.out)["audit"]
    again = RunFolder(tmp_path / "bench-out/r/regressions")
    for engine in ("fast", "slow"):
        cell = again.round(engine, 1).cell("single.perf-short")
        assert (cell.path / "during_cell.log").read_text() == f"{engine}\n" and cell.complete
    assert subprocess.run(["pgrep", "-f", "pacing_server.*--interval-ms 10"], capture_output=True).returncode == 1
