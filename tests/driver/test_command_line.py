"""The command line as a person meets it: one line for a mistake, its exit code, and paths as they were typed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from driver import cli as module
from driver.cli import cli
from driver.errors import BenchError
from records import read_json
from tests.driver.bench import PROFILE, QUALITY, Bench, answered, until
from tests.engines.helpers import ROOT, STANDIN, model_folder

Capsys = pytest.CaptureFixture[str]

REMOTE = """
name = "p"
baseline = "a"
[[engines]]
name = "a"
kind = "remote"
url = "http://127.0.0.1:9"
ready_timeout_s = 0.1
[[cells]]
scenario = "single"
workload = "{workload}"
max_tokens = {max_tokens}
"""


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def one_line(capsys: Capsys) -> str:
    told = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("[")]
    assert len(told) == 1 and told[0].startswith("enginebench: "), told
    return told[0]


def profile(workload: str = "arithmetic", max_tokens: int = 4) -> str:
    Path("p.toml").write_text(REMOTE.format(workload=workload, max_tokens=max_tokens))
    return "p.toml"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["compar"], "No such command 'compar'; did you mean 'compare'?; see enginebench --help"),
        (["nihgtly"], "did you mean 'nightly'?"),
        (["frobnicate"], "No such command 'frobnicate'; see enginebench --help"),
        (["run"], "Missing argument 'PROFILE'; see enginebench run --help"),
        (["run", "demo", "--rounds", "3"], "No such option '--rounds'"),
        (["run", "dmeo"], "dmeo: no such profile; give a TOML file, or one of demo, "),
        (["run", "demo", "--run-id", "a/b"], "--run-id 'a/b': letters, digits"),
        (["run", "demo", "--run-id", "../b"], "--run-id '../b': letters, digits"),
        (["compare", "gone"], "gone: no run.json there"),
        (["score", "gone"], "gone: no run.json there"),
        (["report", "gone"], "gone: no run.json there"),
        (["report", "gone.json"], "gone.json: No such file or directory; give a comparison-*.json of a run"),
        (["explore", "localhost:99999"], "'localhost:99999' was given; expected a URL such as http://127.0.0.1:8080"),
        (["calibrate", "--streams", "few"], "--streams few: numbers above 0 with commas were expected"),
        (["nightly", "demo", "--baseline", "foo"], "--baseline: 'foo' was given; expected series, pinned"),
        (["build", "--cpu", "--cuda-arch", "120"], "--cpu and --cuda-arch exclude each other"),
        (["fetch", "gsm9k"], "gsm9k"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(arguments: list[str], says: str, capsys: Capsys) -> None:
    assert cli(arguments) == 2
    assert says in one_line(capsys)


def test_every_command_tells_itself_in_one_line_and_in_full(capsys: Capsys) -> None:
    assert cli(["--help"]) == 0
    told = capsys.readouterr().out
    assert "..." not in told.partition("Commands:")[2]
    group = module._group
    for name in group.list_commands(click.Context(group)):
        assert cli([name, "--help"]) == 0
        assert f"Usage: enginebench {name}" in capsys.readouterr().out


def test_a_command_that_starts_an_engine_does_not_wait_for_the_statistics() -> None:
    code = "import sys, driver.commands.run; print({'pandas', 'scipy', 'jinja2', 'locust'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_fault_of_ours_is_no_regression(monkeypatch: pytest.MonkeyPatch, capsys: Capsys) -> None:
    @click.command()
    def broken() -> None:
        raise KeyError("a mistake of ours")

    monkeypatch.setattr(module._Commands, "get_command", lambda *_: broken)
    monkeypatch.delenv("ENGINEBENCH_DEBUG", raising=False)
    assert cli(["run"]) == 4
    assert "KeyError: 'a mistake of ours'; test_command_line.py:" in one_line(capsys)
    monkeypatch.setenv("ENGINEBENCH_DEBUG", "1")
    assert cli(["run"]) == 4
    assert "Traceback" in capsys.readouterr().err


def test_an_engines_line_in_an_error_reaches_the_terminal_without_its_escape_sequences(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise BenchError("a: its log ends: \x1b]0;title\x07\x1b[31mred")

    monkeypatch.setattr(module._group, "main", fails)
    assert cli([]) == 4
    assert one_line(capsys) == "enginebench: a: its log ends: ␛]0;title␇␛[31mred"


def test_a_key_that_cannot_be_sent_is_refused_before_an_engine_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret\u2026")
    assert cli(["run", profile(), "--run-id", "r"]) == 2
    told = one_line(capsys)
    assert "OPENAI_API_KEY: character 10 of the key" in told and "sk-" not in told


def test_a_reader_that_has_seen_enough_is_no_failure(tmp_path: Path) -> None:
    command = f"{sys.executable} {ROOT / 'run_bench.py'} run demo --dry-run | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_what_cannot_be_asked_leaves_no_folder_behind(capsys: Capsys) -> None:
    for workload in ("gone.jsonl", "perf-huge"):
        assert cli(["run", profile(workload), "--run-id", "r"]) == 2
        assert workload in one_line(capsys)
    assert cli(["run", profile(), "--run-id", "r", "--out", "p.toml"]) == 2
    assert not Path("bench-out").exists()


def test_more_prompts_than_there_are_is_one_line(capsys: Capsys) -> None:
    path = Path(profile())
    path.write_text(path.read_text() + "[workloads.arithmetic]\nfirst = 800\n")
    assert cli(["run", str(path)]) == 2
    assert "workload arithmetic: a subset of 800 was asked, but there are 60" in one_line(capsys)


def measured() -> None:
    """A record in the run, so that it can only be finished with what it began with."""
    cell = Path("bench-out/r/a/r1/single.mine")
    cell.mkdir(parents=True, exist_ok=True)
    (cell / "requests.jsonl").write_text("{}\n")


def test_a_run_that_measured_nothing_goes_on_with_a_changed_profile(capsys: Capsys) -> None:
    for max_tokens in (4, 5):
        assert cli(["run", profile(max_tokens=max_tokens), "--run-id", "r"]) == 4
        assert "no server answers at http://127.0.0.1:9" in one_line(capsys)
    manifest = read_json(Path("bench-out/r/run.json"))
    assert manifest["profile"]["cells"][0]["max_tokens"] == 5 and len(manifest["resumed_utc"]) == 1


def test_a_run_whose_time_is_up_may_get_more(capsys: Capsys) -> None:
    timed = profile()
    assert cli(["run", timed, "--run-id", "r"]) == 4
    measured()
    before = read_json(Path("bench-out/r/run.json"))
    text = Path(timed).read_text()
    Path(timed).write_text(f'time = "20m"\n{text}')
    # It goes on, and so meets the server that is not there.
    assert cli(["run", timed, "--run-id", "r"]) == 4
    after = read_json(Path("bench-out/r/run.json"))
    assert (before["profile"]["time"], after["profile"]["time"]) == (None, "20m")
    assert before["profile_sha256"] != after["profile_sha256"]


def test_a_run_is_finished_only_with_the_profile_and_the_prompts_that_began_it(capsys: Capsys) -> None:
    mine = Path("mine.jsonl")
    mine.write_text('{"prompt": "one"}\n')
    assert cli(["run", profile("mine.jsonl"), "--run-id", "r"]) == 4
    assert "go on with: enginebench run p.toml --run-id r" in one_line(capsys)
    kept = Path("bench-out/r/workloads/mine.jsonl").read_bytes()
    measured()
    assert cli(["run", profile("mine.jsonl", max_tokens=5), "--run-id", "r"]) == 2
    assert "was started with another profile (cells[0].max_tokens: was 4, is 5)" in one_line(capsys)
    mine.write_text('{"prompt": "two"}\n')
    assert cli(["run", profile("mine.jsonl"), "--run-id", "r"]) == 2
    assert "the workloads have changed since the run was started (mine: was " in one_line(capsys)
    assert Path("bench-out/r/workloads/mine.jsonl").read_bytes() == kept


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_damaged_manifest_is_named(content: str, capsys: Capsys) -> None:
    assert cli(["run", profile(), "--run-id", "r"]) == 4
    capsys.readouterr()
    Path("bench-out/r/run.json").write_text(content)
    assert cli(["run", profile(), "--run-id", "r"]) == 4
    assert "bench-out/r/run.json: " in (line := one_line(capsys)) and "start a new run" in line


def test_a_folder_that_cannot_be_written_is_named_with_the_way_out(capsys: Capsys) -> None:
    Path("blocked").write_text("")
    assert cli(["run", profile(), "--out", "blocked/deeper"]) == 4
    assert "blocked/deeper" in (line := one_line(capsys)) and "--out" in line


def test_missing_cores_are_reported(capsys: Capsys) -> None:
    path = Path(profile())
    path.write_text(path.read_text() + 'cores = "4000-4001"\n')
    assert cli(["run", str(path)]) == 4
    assert "this machine does not have cores 4000-4001" in capsys.readouterr().err


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A run typed in a folder with a space and an umlaut in its name, all its paths relative."""
    bench = Bench(tmp_path_factory.mktemp("Läufe und mehr"))
    model_folder(bench.path / "modell ü")
    (bench.path / "engine").symlink_to(STANDIN)
    (bench.path / "fragen ß.jsonl").write_text('{"prompt": "What is 2+2?", "gold": "4", "task": "arithmetic"}\n')
    text = PROFILE.replace("[workloads.arithmetic]\nfirst = 6", '[workloads.arithmetic]\nfile = "fragen ß.jsonl"')
    path = bench.profile(text, model="modell ü", binary="./engine").name
    done = bench.run("run", path, "--run-id", "r", "--out", "aus gabe")
    bench.out = bench.path / "aus gabe"
    assert done.code in (0, 3), done.stderr
    return bench


def test_relative_paths_are_taken_from_where_the_command_is_typed(finished: Bench) -> None:
    assert answered(finished.cell(QUALITY)) == [("1", 0)]
    assert not (ROOT / "aus gabe").exists()
    argv = read_json(finished.folder().round("a", 1).engine_json)["argv"]
    assert str(finished.path / "engine") in argv and str(finished.path / "modell ü") in argv


def copy(finished: Bench, tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(finished.folder().path, tmp_path / "r"))


def test_the_stages_work_again_alone_from_anywhere(finished: Bench, tmp_path: Path, capsys: Capsys) -> None:
    folder = str(copy(finished, tmp_path))
    assert cli(["score", folder]) == 0
    assert "arithmetic a: " in capsys.readouterr().out
    for command in ("compare", "report"):
        assert cli([command, folder]) in (0, 3)
        assert f"report: {folder}/comparison-" in capsys.readouterr().out


def damage_line(folder: Path) -> None:
    path = folder / "a" / "r1" / QUALITY / "requests.jsonl"
    path.write_text("garbage\n" + path.read_text())


DAMAGE: dict[str, Any] = {
    "requests.jsonl:1": damage_line,
    "engine.json": lambda folder: (folder / "a/r1/engine.json").write_text("{"),
    "run.json": lambda folder: (folder / "run.json").write_text("["),
    "workloads/arithmetic.jsonl:1": lambda folder: (folder / "workloads/arithmetic.jsonl").write_text("{\n"),
    "workloads/arithmetic.jsonl: missing": lambda folder: (folder / "workloads/arithmetic.jsonl").unlink(),
}


@pytest.mark.parametrize("named", DAMAGE)
@pytest.mark.parametrize("command", ["score", "compare"])
def test_a_damaged_folder_is_one_line_that_names_the_file(
    finished: Bench, tmp_path: Path, command: str, named: str, capsys: Capsys
) -> None:
    folder = copy(finished, tmp_path)
    DAMAGE[named](folder)
    assert cli([command, str(folder)]) == 4
    assert named in one_line(capsys)


def test_a_run_that_was_hardly_begun_can_be_judged(tmp_path: Path, capsys: Capsys) -> None:
    assert cli(["run", profile(), "--run-id", "r"]) == 4
    assert cli(["score", "r"]) == 0
    assert "nothing to grade" in capsys.readouterr().out
    assert cli(["report", "r"]) == 2
    assert "has no comparison yet" in one_line(capsys)
    assert cli(["compare", "r"]) == 3
    assert "VOID" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["{}", "[]", "{"])
def test_a_file_that_is_no_comparison_is_named(content: str, capsys: Capsys) -> None:
    Path("x.json").write_text(content)
    assert cli(["report", "x.json"]) == 2
    assert "x.json: " in one_line(capsys)


def test_ctrl_c_while_an_engine_loads_leaves_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    slow = tmp_path / "slow.sh"
    slow.write_text("#!/bin/sh\necho loading\nexec sleep 600\n")
    slow.chmod(0o755)
    process = bench.start("run", bench.profile(binary=slow), "--run-id", "r")
    assert until(lambda: bench.living("sleep 600"))
    process.send_signal(signal.SIGINT)
    done = bench.finish(process)
    assert done.code == 130
    assert "stopped by SIGINT" in done.line


def test_under_nohup_a_hangup_is_ignored(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + (
        "import os, signal\nfrom driver import cli\n"
        "with cli._signals_as_exceptions():\n    os.kill(os.getpid(), signal.SIGHUP)\nprint('still here')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN) and None,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.stdout == "still here\n", done.stderr


def test_the_plan_is_printed_and_nothing_started(capsys: Capsys) -> None:
    assert cli(["run", profile(), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "1. a round 1: remote\n" in out and "single.arithmetic: 60 requests" in out
    assert not Path("bench-out").exists()


def test_json_on_stdout_is_json_alone(finished: Bench, tmp_path: Path, capsys: Capsys) -> None:
    folder = str(copy(finished, tmp_path))
    for command in ("score", "compare"):
        assert cli([command, folder, "--json"]) in (0, 3)
        assert json.loads(capsys.readouterr().out)


def test_a_missing_profile_is_all_that_doctor_says(capsys: Capsys) -> None:
    assert cli(["doctor", "gone"]) == 2
    told = capsys.readouterr()
    assert told.out == "" and "gone: no such profile" in told.err


def test_what_convert_and_build_cannot_use_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capsys
) -> None:
    monkeypatch.setenv("ENGINEBENCH_CACHE", str(tmp_path / "cache"))
    Path("x.txt").write_text("no archive")
    for arguments, says in (
        (["convert", "gone.gguf", "--unpack", "--out", "x"], "convert: gone.gguf: No such file"),
        (["build", "--cpu", "--source", "x.txt"], "x.txt: broken archive: file could not be opened"),
        (["build", "--cuda-arch", "5x"], "--cuda-arch 5x: a number such as 120"),
    ):
        assert cli(arguments) == 4
        assert says in one_line(capsys)
    assert not (tmp_path / "cache").exists()


def test_explore_tells_that_its_port_is_in_use_before_anything_starts(capsys: Capsys) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for target in (f"http://127.0.0.1:{port}", "demo:llama-4slots"):
            assert cli(["explore", target, "--port", str(port)]) == 4
            told = one_line(capsys)
            assert f"port {port} on 127.0.0.1 is in use by pid {os.getpid()}" in told
            assert "give another --port" in told
    assert not Path("bench-out").exists()


def test_what_explore_cannot_use_is_told_before_anything_starts(capsys: Capsys) -> None:
    for arguments, says in (
        (["explore", "http://127.0.0.1:9", "--prompts", "gone.jsonl"], "--prompts gone.jsonl: no such prompts file"),
        (["explore", ""], "'': a URL or PROFILE:ENGINE was expected"),
        (["explore", "demo:other"], "demo: no engine 'other'; there are llama-4slots, llama-1slot"),
    ):
        assert cli(arguments) == 2
        assert says in one_line(capsys)
    assert not Path("bench-out").exists()
