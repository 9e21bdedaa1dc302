"""What can go wrong is one line (what, where, how to mend it) with its exit code; nothing measured is lost or left."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from records import ErrorKind, read_json
from tests.driver.bench import PERF, PROFILE, QUALITY, Bench, Done, answered, records, require_whole, until
from tests.engines.helpers import STANDIN

REMOTE = """
name = "p"
baseline = "a"
[[engines]]
name = "a"
kind = "remote"
url = "http://127.0.0.1:{port}"
ready_timeout_s = 0.5
[[cells]]
scenario = "single"
workload = "perf-short"
requests = 1
max_tokens = 4
"""
LLAMA = REMOTE.replace(
    'kind = "remote"\nurl = "http://127.0.0.1:{port}"', 'kind = "llama_cpp_wheel"\nmodel = "{model}"'
)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def script(bench: Bench, code: str) -> Path:
    path = bench.path / "server.sh"
    path.write_text(f"#!/bin/sh\n{code}\n")
    path.chmod(0o755)
    return path


def test_no_server_at_the_host(bench: Bench) -> None:
    done = bench.run("run", bench.profile(REMOTE), "--run-id", "r")
    assert done.code == 4
    assert f"a: no server answers at http://127.0.0.1:{bench.port}" in done.line
    assert "start it" in done.line and "--run-id r" in done.line


def test_a_port_in_use(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        done = bench.run("run", bench.profile(port=port), "--run-id", "r")
    assert done.code == 4
    assert f"port {port}" in done.line and str(os.getpid()) in done.line
    assert "another `port`" in done.line


def test_a_missing_model_file(bench: Bench) -> None:
    done = bench.run("run", bench.profile(LLAMA, model="gone.gguf"), "--run-id", "r")
    assert done.code == 4
    assert f"model {bench.path / 'gone.gguf'}: No such file" in done.line and "give the path of a GGUF" in done.line


def test_a_model_that_is_no_gguf(bench: Bench) -> None:
    (bench.path / "x.gguf").write_bytes(b"PK\3\4 a zip file")
    done = bench.run("run", bench.profile(LLAMA, model="x.gguf"), "--run-id", "r")
    assert done.code == 4
    assert "x.gguf" in done.line and "not a GGUF" in done.line and "enginebench convert" in done.line


def test_an_engine_that_dies_while_loading(bench: Bench) -> None:
    binary = script(bench, "echo loading; echo layer 7 is broken; exit 3")
    done = bench.run("run", bench.profile(binary=binary), "--run-id", "r")
    assert done.code == 4
    assert "exit code 3" in done.line and "layer 7 is broken" in done.line and "server.log" in done.line
    state = read_json(bench.folder().round("a", 1).engine_json)
    assert state["stop_reason"] == "never ready" and "layer 7 is broken" in state["error"]


@pytest.mark.engines
def test_an_engine_that_dies_in_the_middle_of_a_run_and_the_same_run_goes_on(bench: Bench) -> None:
    profile = bench.profile(token_ms=30)
    process = bench.start("run", profile, "--run-id", "r")
    assert until(lambda: len(records(bench.cell(QUALITY))) >= 2)
    (engine,) = bench.living("xserv_standin.py --") or bench.living("xserv_standin.py")[-1:]
    engine.kill()
    done = bench.finish(process)
    assert done.code == 4
    assert "the engine died" in done.line and "--run-id r" in done.line
    kept = answered(bench.cell(QUALITY))
    assert len(kept) >= 2
    assert {record.error["kind"] for record in records(bench.cell(QUALITY)) if record.error} <= {ErrorKind.ENGINE_GONE}
    state = read_json(bench.folder().round("a", 1).engine_json)
    assert state["stop_reason"] == "died" and state["exit_code"] == -signal.SIGKILL
    # The rest is asked, but an engine that died is not what a fair comparison compares.
    assert bench.run("run", profile, "--run-id", "r").code == 3
    (report,) = bench.folder().path.glob("comparison-*.md")
    assert "and was started again to finish the round" in report.read_text()
    require_whole(bench)
    assert set(kept) <= set(answered(bench.cell(QUALITY)))


def test_a_server_at_a_url_that_goes_away_in_the_middle(bench: Bench) -> None:
    text = re.sub(r"(?m)^(model|binary|port|env) = .*\n", "", PROFILE.replace("{token_ms}", ""))
    text = text.replace('kind = "xserv"', f'kind = "remote"\nurl = "http://127.0.0.1:{bench.port}"')
    run = ["run", bench.profile(text), "--run-id", "r"]
    command = [str(STANDIN), str(bench.path / "model"), "--port", str(bench.port)]
    env = {**os.environ, "STANDIN_TOKEN_MS": "30"}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=env) as server:
        process = bench.start(*run)
        assert until(lambda: len(records(bench.cell(QUALITY))) >= 2)
        server.kill()
    done = bench.finish(process)
    assert done.code == 4
    assert f"the engine died: no server answers at http://127.0.0.1:{bench.port} any more" in done.line
    assert len(answered(bench.cell(QUALITY))) >= 2
    # What was not answered is owed: the same run would ask it again.
    assert {record.error["kind"] for record in records(bench.cell(QUALITY)) if record.error} == {ErrorKind.ENGINE_GONE}
    assert not bench.cell(QUALITY).complete


def test_an_unknown_key_of_the_profile(bench: Bench) -> None:
    done = bench.run("run", bench.profile(more="rouns = 3"), "--run-id", "r")
    assert done.code == 2
    assert done.line == f'enginebench: {bench.path / "p.toml"}: rouns: unknown key (did you mean "rounds"?)'
    assert not bench.folder().path.exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no such prompts file"),
        (b'{"prompt": "a"}\n{"prompt": "b"}\n{nonsense\n', "mine.jsonl:3"),
        (b"\xff\xfe\x00\x00", "UTF-8"),
        (b"", "holds no prompt"),
    ],
)
def test_a_prompts_file_that_cannot_be_read(bench: Bench, content: bytes | None, says: str) -> None:
    if content is not None:
        (bench.path / "mine.jsonl").write_bytes(content)
    text = PROFILE.replace('workload = "arithmetic"', 'workload = "mine.jsonl"').replace(
        "[workloads.arithmetic]\nfirst = 6", ""
    )
    done = bench.run("run", bench.profile(text), "--run-id", "r")
    assert done.code == 2
    assert "mine.jsonl" in done.line and says in done.line


def test_a_pipe_in_place_of_a_prompts_file_or_a_profile_is_one_line_and_nothing_hangs(bench: Bench) -> None:
    os.mkfifo(bench.path / "mine.jsonl")
    text = REMOTE.replace('workload = "perf-short"', 'workload = "mine.jsonl"')
    done = bench.run("run", bench.profile(text), "--run-id", "r")
    assert done.code == 2
    assert "mine.jsonl: is not a regular file; save the prompts as a file first" in done.line
    os.mkfifo(bench.path / "pipe.toml")
    done = bench.run("run", bench.path / "pipe.toml")
    assert done.code == 2
    assert "pipe.toml: is not a regular file; save the profile as a file first" in done.line


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a small tmpfs can't be mounted here: {mounted.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


def fill(path: Path) -> None:
    with contextlib.suppress(OSError), path.open("wb", buffering=0) as filler:
        while filler.write(b"x" * 512):
            pass


@pytest.mark.engines
def test_a_disk_that_fills_up_in_the_middle_and_the_same_run_goes_on(bench: Bench, small_disk: Path) -> None:
    bench.out = small_disk
    profile = bench.profile(token_ms=30)
    process = bench.start("run", profile, "--run-id", "r", "--out", small_disk)
    assert until(lambda: len(records(bench.cell(QUALITY))) >= 2)
    fill(small_disk / "filler")
    done = bench.finish(process)
    assert done.code == 4
    assert "No space left on device" in done.line and f"--out {small_disk.name}" in done.line
    kept = answered(bench.cell(QUALITY))
    assert len(kept) >= 2
    (small_disk / "filler").unlink()
    assert bench.run("run", profile, "--run-id", "r", "--out", small_disk).code in (0, 3)
    require_whole(bench)
    assert set(kept) <= set(answered(bench.cell(QUALITY)))


def test_a_disk_that_is_full_from_the_start(bench: Bench, small_disk: Path) -> None:
    fill(small_disk / "filler")
    done = bench.run("run", bench.profile(), "--run-id", "r", "--out", small_disk)
    assert done.code == 4
    assert "No space left on device" in done.line and str(small_disk) in done.line


def stopped(bench: Bench, profile: Path, sign: signal.Signals) -> Done:
    process = bench.start("run", profile, "--run-id", "r")
    assert until(lambda: len(records(bench.cell(QUALITY))) >= 2)
    process.send_signal(sign)
    done = bench.finish(process)
    assert sign.name in done.line and "--run-id r" in done.line
    assert read_json(bench.folder().round("a", 1).engine_json)["stop_reason"] == "the run was stopped"
    return done


def test_sigterm_in_the_middle(bench: Bench) -> None:
    assert stopped(bench, bench.profile(token_ms=30), signal.SIGTERM).code == 143
    assert 2 <= len(answered(bench.cell(QUALITY))) < 6
    assert [record.error for record in records(bench.cell(QUALITY)) if not record.ok] == []


@pytest.mark.engines
def test_ctrl_c_in_the_middle_and_the_same_run_goes_on(bench: Bench) -> None:
    profile = bench.profile(token_ms=30)
    assert stopped(bench, profile, signal.SIGINT).code == 130
    kept, perf = answered(bench.cell(QUALITY)), bench.cell(PERF).requests.read_bytes()
    assert 2 <= len(kept) < 6
    assert bench.run("run", profile, "--run-id", "r").code in (0, 3)
    require_whole(bench)
    assert set(kept) <= set(answered(bench.cell(QUALITY)))
    assert {record.workload for record in records(bench.cell(QUALITY))} == {"arithmetic"}
    assert bench.cell(PERF).requests.read_bytes() == perf
