"""What a person can get wrong is one line that says what and where, exit code 2, and no request was sent."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from records import read_json
from tests.load.load import ROOT, prompts_file, run
from tests.load.scripted_server import ScriptedServer, chat


def good_server() -> ScriptedServer:
    return ScriptedServer(lambda asked: [chat(["a"])])


MISTAKES: dict[str, tuple[list[str], str]] = {
    "a missing prompts file": (["--prompts", "/nowhere/mine.jsonl"], "/nowhere/mine.jsonl"),
    "an unknown workload": (["--prompts", "gsm9k"], "gsm9k"),
    "extras that are no object": (["--request-extras", "[1]"], "--request-extras"),
    "no samples": (["--samples", "0"], "--samples 0"),
    "a deadline that is no number": (["--request-timeout", "nan"], "--request-timeout nan"),
    "steps that are no numbers": (["--steps", "1,x"], "--steps 1,x"),
    "an unknown kind of arrivals": (["--arrivals", "random"], "--arrivals"),
    "no users": (["-u", "0", "--requests", "1"], "--users 0: at least 1"),
    "users of another scenario": (["-u", "3", "--requests", "1"], "--users 3: single always has 1"),
    "an option of another scenario": (["--rate", "4", "--requests", "1"], "--rate: only open_loop uses it"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_exit_code_2(tmp_path: Path, mistake: str) -> None:
    options, named = MISTAKES[mistake]
    with good_server() as server:
        outcome = run("single", server.url, tmp_path / "out", *options)
    assert outcome.code == 2
    assert "Traceback" not in outcome.stderr
    told = [line for line in outcome.stderr.splitlines() if named in line and not line.lstrip().startswith(("[", "-"))]
    assert len(told) >= 1, outcome.stderr
    assert not server.asked
    assert not (tmp_path / "out" / "requests.jsonl").exists()


def test_a_row_of_the_prompts_that_cannot_be_read_is_named_by_its_line(tmp_path: Path) -> None:
    prompts = prompts_file(tmp_path / "mine.jsonl", ["a", "b"])
    prompts.write_text(prompts.read_text() + "{nonsense\n")
    with good_server() as server:
        outcome = run("single", server.url, tmp_path / "out", "--prompts", str(prompts))
    assert outcome.code == 2
    assert "mine.jsonl" in outcome.stderr
    assert "3" in outcome.stderr.split("mine.jsonl", 1)[1][:20]
    assert "Traceback" not in outcome.stderr


def test_a_host_without_a_server_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        # Bound, so that nobody else gets it, but not listened to.
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        outcome = run("single", f"http://127.0.0.1:{port}", tmp_path / "out", "--requests", "1")
    assert outcome.code == 2
    assert f"127.0.0.1:{port}" in outcome.stderr
    assert "Connection refused" in outcome.stderr
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize("url", ["ftp://127.0.0.1:1", "http://127.0.0.1:99999"])
def test_a_host_that_is_no_url_is_named(tmp_path: Path, url: str) -> None:
    outcome = run("single", url, tmp_path / "out", "--requests", "1")
    assert outcome.code == 2
    assert "--host" in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_two_scenarios_at_once_are_refused_with_their_names(tmp_path: Path) -> None:
    files = f"{ROOT / 'locustfiles' / 'single.py'},{ROOT / 'locustfiles' / 'concurrent_4.py'}"
    with good_server() as server:
        argv = [sys.executable, "-m", "locust", "-f", files, "--headless", "--host", server.url]
        argv += ["--capture-dir", str(tmp_path / "out"), "--requests", "1"]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "Concurrent4, Single" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_host_the_option_is_named(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "locust", "-f", str(ROOT / "locustfiles" / "single.py"), "--headless"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--host" in done.stderr
    assert "Traceback" not in done.stderr


BROKEN = """
from locustfiles.concurrent_4 import Concurrent4

class Broken(Concurrent4):
    def _attempt(self, ticket, attempt):
        if ticket.prompt.prompt_id.endswith("3"):
            raise KeyError("a mistake of ours")
        return super()._attempt(ticket, attempt)

del Concurrent4
"""


def test_a_mistake_in_the_load_itself_is_never_a_success(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    prompts = prompts_file(tmp_path / "mine.jsonl", [f"q{n}" for n in range(8)])
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with good_server() as server:
        argv = [sys.executable, "-m", "locust", "-f", str(tmp_path / "broken.py"), "--headless", "--host", server.url]
        argv += ["--capture-dir", str(tmp_path / "out"), "--prompts", str(prompts), "--requests", "8"]
        done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    scenario = read_json(tmp_path / "out" / "scenario.json")
    assert scenario["complete"] is False
    assert "a mistake of ours" in scenario["incomplete_reason"]
