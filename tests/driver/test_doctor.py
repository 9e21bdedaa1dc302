"""`doctor`: every check of a profile without running it, and the backstop for strays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from driver.cli import cli
from driver.profile.read import load_profile
from engines.process import leftovers as leftovers
from tests.engines.helpers import ROOT, STANDIN, model_folder

PROFILE = """
name = "t"
baseline = "x"
max_seq_len = 512
[[engines]]
name = "x"
kind = "xserv"
model = "{model}"
binary = "{binary}"
threads = 1
[[cells]]
scenario = "single"
workload = "perf-short"
requests = 2
max_tokens = 8
"""


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def profile(tmp_path: Path, *, binary: str = str(STANDIN), text: str = PROFILE) -> str:
    path = tmp_path / "t.toml"
    path.write_text(text.format(model=model_folder(tmp_path / "model"), binary=binary))
    return str(path)


def test_a_fit_machine_passes_and_nothing_was_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = set(psutil.Process().children())
    assert cli(["doctor", profile(tmp_path)]) == 0
    out = capsys.readouterr().out
    for name in ("disk", "packages", "perf-short", "port", "files", "memory"):
        assert f" {name}: " in out
    assert "FAIL" not in out
    assert set(psutil.Process().children()) == before


def test_what_a_run_would_refuse_fails_with_exit_code_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["doctor", profile(tmp_path, binary="nowhere-to-be-found")]) == 4
    told = capsys.readouterr()
    assert "FAIL files: x: no executable 'nowhere-to-be-found'" in told.out
    assert told.err.count("\n") == 1


CONVERTED = PROFILE.replace('kind = "xserv"\nmodel = "', 'kind = "llama_cpp"\nmodel = "convert:')


def test_a_model_that_is_still_to_be_converted_gets_every_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The folder's safetensors file is none, which a run would meet after all else was prepared.
    assert cli(["doctor", profile(tmp_path, text=CONVERTED)]) == 4
    out = capsys.readouterr().out
    assert "FAIL model: convert: " in out and "not a safetensors file" in out
    for name in ("binary", "port", "threads", "memory"):
        assert f" {name}: " in out


def test_a_binary_that_is_not_there_hides_no_other_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # llama.cpp looks into its binary to tell whether it runs on the GPU.
    for text in (PROFILE.replace('"xserv"', '"llama_cpp"'), CONVERTED):
        assert cli(["doctor", profile(tmp_path, binary="nowhere-to-be-found", text=text)]) == 4
        told = capsys.readouterr()
        assert "FAIL gpu: x: no executable 'nowhere-to-be-found'" in told.out
        for name in ("port", "threads", "memory"):
            assert f" {name}: " in told.out
        assert "of the checks failed" in told.err and told.err.count("\n") == 1


def test_a_workload_that_was_not_fetched_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGINEBENCH_DATA", str(tmp_path / "no-data"))
    text = PROFILE.replace('workload = "perf-short"', 'workload = "gsm8k"')
    assert cli(["doctor", profile(tmp_path, text=text)]) == 4
    assert "FAIL gsm8k: " in capsys.readouterr().out


def test_clean_ends_a_stray_and_only_a_stray(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = """
import subprocess
from engines.process import leftovers
null = subprocess.DEVNULL
stray = subprocess.Popen(["sleep", "300"], start_new_session=True, stdout=null, stderr=null)
leftovers.remember(stray.pid, "stray", "no-life")
print(stray.pid)
"""
    told = subprocess.run([sys.executable, "-c", note], cwd=ROOT, capture_output=True, text=True, check=True)
    stray = psutil.Process(int(told.stdout))
    mine = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        leftovers.remember(mine.pid, "at-work", "no-life-either")
        assert cli(["doctor"]) == 4
        assert "left by a killed run" in capsys.readouterr().out
        assert cli(["doctor", "--clean"]) == 0
        out = capsys.readouterr().out
        assert "stray" in out and "stopped" in out and "running now" in out
        assert not stray.is_running() or stray.status() == psutil.STATUS_ZOMBIE
        assert mine.poll() is None
    finally:
        os.kill(mine.pid, 9)
        mine.wait()


def test_the_reference_run_is_written_down() -> None:
    loaded = load_profile("qwen3-8b-rtx5090")
    assert loaded.max_seq_len == 8192 and not loaded.thinking and not loaded.cache
    assert {engine.slots for engine in loaded.engines} == {4}
    assert {engine.kind for engine in loaded.engines} == {"llama_cpp", "xserv"}
    assert loaded.sampling.temperature == 0
    assert loaded.workloads["gsm8k"].first == 50
    assert {cell.workload for cell in loaded.cells} == {"perf-medium", "gsm8k", "aime2025"}
