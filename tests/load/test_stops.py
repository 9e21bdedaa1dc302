"""However a run is stopped, what was asked and came back is on disk, and the process is gone soon."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from records import read_json
from tests.load.load import ROOT, finish, start
from tests.load.scripted_server import Action, Asked, ScriptedServer, paced


def steady(asked: Asked) -> list[Action]:
    return list(paced(["a"] * 4, first_s=0.05, gap_s=0.05))


def stuck(asked: Asked) -> list[Action]:
    role, *_ = paced(["a"], first_s=0.0, gap_s=0.0)
    return [role, 60.0]


def wait_for(what: Callable[[], bool], process: subprocess.Popen[str] | None = None, *, timeout_s: float = 30) -> None:
    """Wait until it is so; if it never is, tell what the load process said, and leave it not behind."""
    deadline = time.monotonic() + timeout_s
    while not what():
        if time.monotonic() > deadline or (process is not None and process.poll() is not None):
            said = ""
            if process is not None:
                process.kill()
                said = process.communicate()[1]
            raise AssertionError(f"it did not come about:\n{said[-3000:]}")
        time.sleep(0.02)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_what_is_in_flight_end_and_loses_nothing(tmp_path: Path, sign: signal.Signals) -> None:
    with ScriptedServer(steady) as server:
        process = start("concurrent_4", server.url, tmp_path / "out", "--requests", "10000")
        wait_for(lambda: len(server.asked) >= 10, process)
        process.send_signal(sign)
        outcome = finish(process, tmp_path / "out", timeout_s=10)
        asked = len(server.asked)
    assert len(outcome.records) == asked < 100
    assert outcome.kinds == []
    assert outcome.scenario["complete"] is False
    assert "stopped" in outcome.scenario["incomplete_reason"]
    assert outcome.scenario["ended_utc"] is not None
    assert outcome.scenario["counts"]["ok"] == asked
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_what_does_not_end_after_a_stop_is_cancelled_and_recorded(tmp_path: Path, sign: signal.Signals) -> None:
    with ScriptedServer(stuck) as server:
        options = ["--requests", "100", "--drain-timeout", "0.5"]
        process = start("concurrent_4", server.url, tmp_path / "out", *options)
        wait_for(lambda: len(server.asked) >= 4, process)
        stopped = time.monotonic()
        process.send_signal(sign)
        outcome = finish(process, tmp_path / "out", timeout_s=20)
        took_s = time.monotonic() - stopped
    # Far less than the minute that the server would take, and than the ten seconds that are the default.
    assert took_s < 9
    assert outcome.kinds == ["cancelled"] * 4
    assert outcome.scenario["complete"] is False
    assert outcome.scenario["counts"]["errors_by_kind"] == {"cancelled": 4}
    assert outcome.code == 1


def test_a_second_interrupt_does_not_lose_records(tmp_path: Path) -> None:
    with ScriptedServer(steady) as server:
        process = start("concurrent_4", server.url, tmp_path / "out", "--requests", "10000")
        wait_for(lambda: len(server.asked) >= 10, process)
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        outcome = finish(process, tmp_path / "out", timeout_s=15)
        asked = len(server.asked)
    assert len(outcome.records) == asked
    assert outcome.kinds == []
    assert outcome.scenario["complete"] is False


def test_a_stop_during_the_warm_up_is_incomplete_and_measured_nothing(tmp_path: Path) -> None:
    with ScriptedServer(steady) as server:
        options = ["--requests", "8", "--warmup", "1000"]
        process = start("concurrent_4", server.url, tmp_path / "out", *options)
        wait_for(lambda: len(server.asked) >= 8, process)
        process.send_signal(signal.SIGTERM)
        outcome = finish(process, tmp_path / "out", timeout_s=10)
    assert {record.phase for record in outcome.records} == {"warmup"}
    assert outcome.scenario["counts"]["measure"] == outcome.scenario["counts"]["drain"] == 0
    assert outcome.scenario["complete"] is False


def test_the_run_time_of_locust_stops_as_a_person_does(tmp_path: Path) -> None:
    with ScriptedServer(steady) as server:
        process = start("concurrent_4", server.url, tmp_path / "out", "--requests", "10000", "-t", "2s")
        outcome = finish(process, tmp_path / "out", timeout_s=30)
        asked = len(server.asked)
    assert len(outcome.records) == asked
    assert outcome.kinds == []
    assert outcome.scenario["complete"] is False


def test_a_stop_ends_the_wait_of_an_open_loop(tmp_path: Path) -> None:
    with ScriptedServer(steady) as server:
        options = ["--requests", "10", "--rate", "0.01", "--arrivals", "constant"]
        process = start("open_loop", server.url, tmp_path / "out", *options)
        wait_for(lambda: len(server.asked) >= 1, process)
        process.send_signal(signal.SIGTERM)
        outcome = finish(process, tmp_path / "out", timeout_s=10)
    assert len(outcome.records) == 1
    assert outcome.kinds == []


def test_a_stop_ends_the_wait_for_another_attempt(tmp_path: Path) -> None:
    busy = b"HTTP/1.1 503 Busy\r\nRetry-After: 50\r\nContent-Length: 0\r\n\r\n"
    with ScriptedServer(lambda asked: [busy]) as server:
        options = ["--requests", "2", "--retries", "3", "--drain-timeout", "0.5"]
        process = start("single", server.url, tmp_path / "out", *options)
        wait_for(lambda: len(server.asked) >= 1, process)
        process.send_signal(signal.SIGTERM)
        outcome = finish(process, tmp_path / "out", timeout_s=15)
    assert outcome.kinds == ["busy"]
    assert outcome.scenario["complete"] is False


DRIVER = """
import subprocess, sys, time
from pathlib import Path
from driver.run.launcher import Locust
env = Locust(scenario="concurrent_4", options={}, request_extras={}, log=Path("load.log")).env()
print(subprocess.Popen(sys.argv[1:], env=env, start_new_session=True, stderr=subprocess.DEVNULL).pid, flush=True)
time.sleep(60)
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent has died")
def test_the_load_ends_with_its_driver_even_where_that_is_killed(tmp_path: Path) -> None:
    with ScriptedServer(steady) as server:
        argv = [sys.executable, "-m", "locust", "-f", str(ROOT / "locustfiles" / "concurrent_4.py"), "--headless"]
        argv += ["--host", server.url, "--capture-dir", str(tmp_path / "out"), "--requests", "10000"]
        driver = subprocess.Popen([sys.executable, "-c", DRIVER, *argv], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        with driver:
            assert driver.stdout is not None
            pid = int(driver.stdout.readline())
            try:
                wait_for(lambda: len(server.asked) >= 8)
                driver.kill()
                wait_for(lambda: not alive(pid), timeout_s=10)
            finally:
                if alive(pid):
                    os.kill(pid, signal.SIGKILL)
    assert read_json(tmp_path / "out" / "scenario.json")["complete"] is False
