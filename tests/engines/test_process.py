"""One life cycle for all engines: no process and no port is left, however a life ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from engines import EngineConfig, EngineError, create, running
from engines.process import leftovers as leftovers
from engines.process.lifecycle import RunningEngine
from engines.process.port import free_port, port_is_free
from engines.xserv import Xserv
from tests.engines.helpers import ROOT, STANDIN, ask, model_folder, standin


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def start_fails(engine: Xserv | object, tmp_path: Path, timeout_s: float = 20) -> str:
    from engines import Engine

    assert isinstance(engine, Engine)
    with pytest.raises(EngineError) as error, running(engine, tmp_path / "server.log", ready_timeout_s=timeout_s):
        pass
    message = str(error.value)
    assert "\n" not in message
    return message


def script(tmp_path: Path, code: str) -> str:
    path = tmp_path / "server.sh"
    path.write_text(f"#!/bin/sh\n{code}\n")
    path.chmod(0o755)
    return str(path)


def ended(process: psutil.Process) -> bool:
    """Gone, or dead and waiting for a slow init to collect it."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def until(condition: object, seconds: float = 20) -> bool:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


def test_an_engine_is_up_inside_and_gone_after(tmp_path: Path) -> None:
    engine = standin(tmp_path)
    with running(engine, tmp_path / "server.log", ready_timeout_s=20) as alive:
        assert alive.alive()
        assert ask(engine).status_code == 200
        pid = alive.pid
    assert pid is not None and not psutil.pid_exists(pid)
    assert alive.machine()["processes_left"] == 0
    assert alive.machine()["port_free_after"] is True
    assert "listening" in (tmp_path / "server.log").read_text()
    assert until(lambda: leftovers.find() == [])


def test_a_helper_that_left_group_and_session_ends_with_the_engine(tmp_path: Path) -> None:
    engine = standin(tmp_path, env={"STANDIN_HELPER": "1"})
    with running(engine, tmp_path / "server.log", ready_timeout_s=20) as alive:
        assert alive.pid is not None
        helpers = psutil.Process(alive.pid).children()
        assert len(helpers) == 1
    assert not any(helper.is_running() for helper in helpers)
    assert alive.processes_left == 0


def test_a_port_in_use_is_refused_and_names_its_holder(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        message = start_fails(standin(tmp_path, port=port), tmp_path)
    assert f"port {port}" in message and str(os.getpid()) in message


def test_an_engine_that_dies_while_loading_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    binary = script(tmp_path, "echo loading weights; echo layer 7 is broken; exit 3")
    message = start_fails(standin(tmp_path, binary=binary), tmp_path)
    assert "ended by itself (exit code 3): layer 7 is broken; before that: loading weights; log: " in message


def test_the_engines_environment_is_the_engines_alone(tmp_path: Path) -> None:
    """A PYTHONHOME that leads nowhere would end any Python, the supervisor's too."""
    binary = script(tmp_path, 'echo "home is $PYTHONHOME"; exit 3')
    engine = standin(tmp_path, binary=binary, env={"PYTHONHOME": "/nowhere"})
    assert "ended by itself (exit code 3): home is /nowhere" in start_fails(engine, tmp_path)


def test_an_engine_that_never_gets_ready_is_ended_at_the_deadline(tmp_path: Path) -> None:
    engine = standin(tmp_path, binary=script(tmp_path, "echo still warming up; exec sleep 600"))
    life = RunningEngine(engine, tmp_path / "server.log")
    with pytest.raises(EngineError, match=r"not ready within 1 s.*still warming up"):
        life.start(1.0)
    assert life.processes_left == 0


def test_an_engine_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engines.process.lifecycle.STOP_GRACE_S", 0.5)
    engine = standin(tmp_path, binary=script(tmp_path, "trap '' TERM; while true; do sleep 1; done"))
    life = RunningEngine(engine, tmp_path / "server.log")
    with pytest.raises(EngineError):
        life.start(0.5)
    assert life.processes_left == 0
    assert life.exit_code == -signal.SIGKILL


def test_sigill_is_explained(tmp_path: Path) -> None:
    message = start_fails(standin(tmp_path, binary=script(tmp_path, "kill -ILL $$")), tmp_path)
    assert "SIGILL" in message and "GGML_NATIVE=OFF" in message


def test_out_of_gpu_memory_at_start_is_explained_with_the_engines_own_words(tmp_path: Path) -> None:
    message = start_fails(standin(tmp_path, env={"STANDIN_OOM": "1"}), tmp_path)
    assert "out of GPU memory" in message and "21474836480" in message


def test_a_binary_that_is_no_program_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "not-a-program"
    path.write_bytes(b"\x00\x01\x02")
    path.chmod(0o755)
    assert "cannot be started" in start_fails(standin(tmp_path, binary=str(path)), tmp_path)


def test_an_engine_that_dies_is_seen(tmp_path: Path) -> None:
    with running(standin(tmp_path), tmp_path / "server.log", ready_timeout_s=20) as alive:
        assert alive.pid is not None
        os.kill(alive.pid, signal.SIGKILL)
        assert until(lambda: not alive.alive())
    assert alive.exit_code == -signal.SIGKILL


def test_no_server_at_a_url_is_one_line(tmp_path: Path) -> None:
    engine = create(EngineConfig(name="r", kind="remote", url=f"http://127.0.0.1:{free_port()}"))
    assert "no server answers at http://127.0.0.1" in start_fails(engine, tmp_path, timeout_s=0.3)


def test_the_clients_keys_never_reach_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-client")
    with running(standin(tmp_path), tmp_path / "server.log", ready_timeout_s=20) as alive:
        assert "OPENAI_API_KEY" not in psutil.Process(alive.pid).environ()


def driver(tmp_path: Path, port: int) -> subprocess.Popen[str]:
    """A process that starts the stand-in, says so, and then sleeps, as a driver in the middle of a cell."""
    code = f"""
import sys, time
from pathlib import Path
from engines import EngineConfig, create, running
engine = create(EngineConfig(name="x", kind="xserv", model=Path({str(model_folder(tmp_path / "model"))!r}),
                             binary={str(STANDIN)!r}, port={port}, env={{"STANDIN_HELPER": "1"}}))
with running(engine, Path({str(tmp_path / "server.log")!r}), ready_timeout_s=20) as alive:
    print(alive.pid, flush=True)
    time.sleep(600)
"""
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_an_engine_ends_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    port = free_port()
    with driver(tmp_path, port) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        assert len(family) == 2
        process.kill()
    assert until(lambda: all(ended(member) for member in family))
    assert until(lambda: port_is_free("127.0.0.1", port))
    assert until(lambda: leftovers.find() == [])


def test_what_a_killed_supervisor_leaves_is_found_and_ended_by_start_time(tmp_path: Path) -> None:
    with driver(tmp_path, free_port()) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        engine = psutil.Process(pid)
        helper = engine.children()[0]
        running_now = leftovers.find()
        assert [stray.driver_lives for stray in running_now] == [True]
        supervisor = engine.parent()
        assert supervisor is not None
        # Driver first, so that nobody is left to clean up but doctor.
        supervisor.suspend()
        process.kill()
        supervisor.kill()
    assert until(lambda: ended(engine))
    (stray,) = leftovers.find()
    assert not stray.driver_lives and [member.pid for member in stray.processes] == [helper.pid]
    assert leftovers.end(stray)
    assert ended(helper) and leftovers.find() == []


def test_a_note_whose_pid_is_somebody_else_now_is_dropped(tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        leftovers.remember(bystander.pid, "x", "no-such-life")
        note = leftovers.state_dir() / f"{bystander.pid}.json"
        note.write_text(note.read_text().replace('"created": ', '"created": 1'))
        assert until(lambda: leftovers.find() == [])
        assert not note.exists() and bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
