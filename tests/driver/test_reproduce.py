"""The command lines that a report ends with work when pasted where the run was started."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from driver.profile.read import PROFILES
from driver.run.plan import DEFAULT_OUT
from driver.run.reproduce import compare_command, program, run_command
from records import RunFolder


def test_a_profile_of_ours_goes_by_its_name_and_another_by_its_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(PROFILES / "demo.toml", DEFAULT_OUT) == "enginebench run demo"
    assert run_command(tmp_path / "mine" / "a b.toml", DEFAULT_OUT) == "enginebench run 'mine/a b.toml'"
    assert (
        run_command(Path("/else/x.toml"), Path("out"), "--run-id", "r")
        == "enginebench run /else/x.toml --run-id r --out out"
    )


def test_a_run_goes_by_its_name_only_in_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert compare_command(RunFolder(DEFAULT_OUT / "r1")) == "enginebench compare r1"
    assert compare_command(RunFolder(tmp_path / "out" / "r1")) == "enginebench compare out/r1"
    assert compare_command(RunFolder(Path("/else/r1"))) == "enginebench compare /else/r1"


@pytest.mark.parametrize(
    ("called", "on_path", "shown"),
    [
        (".venv/bin/enginebench", False, ".venv/bin/enginebench"),
        (".venv/bin/enginebench", True, "enginebench"),
        ("run_bench.py", False, "./run_bench.py"),
        ("pytest", False, "enginebench"),
    ],
)
def test_the_program_is_called_as_the_shell_finds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, called: str, on_path: bool, shown: str
) -> None:
    script = tmp_path / called
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script), "run"])
    monkeypatch.setenv("PATH", str(script.parent) if on_path else "/nowhere")
    assert program() == shown
    if shown != "enginebench":
        assert subprocess.run(shlex.split(shown), cwd=tmp_path, check=False).returncode == 0
