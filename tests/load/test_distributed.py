"""Several load processes are one: nothing asked twice, nothing lost, and a lost worker is told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from records import read_records
from tests.load.load import ROOT, Outcome, finish, prompts_file, run, start
from tests.load.scripted_server import Action, Asked, ScriptedServer, paced


def steady(asked: Asked) -> list[Action]:
    return list(paced(["a"] * 4, first_s=0.05, gap_s=0.05))


def wait_for(what: Callable[[], bool], process: subprocess.Popen[str] | None = None, *, timeout_s: float = 40) -> None:
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


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def two() -> list[str]:
    """A master that forks two workers, on a port that no other test's workers know."""
    port = str(free_port())
    return ["--processes", "2", "--master-bind-port", port, "--master-port", port]


def assert_whole(outcome: Outcome, asked: int) -> None:
    """Every request that reached the engine has its record at the master, once."""
    records = outcome.records
    assert len(records) == asked
    assert len({record.id for record in records}) == asked
    assert len(outcome.scenario["workers"]) == 2
    assert sum(w["counts"]["ok"] + w["counts"]["error"] for w in outcome.scenario["workers"]) == len(outcome.measured)


def test_two_processes_ask_exactly_what_one_would(tmp_path: Path) -> None:
    with ScriptedServer(steady) as server:
        options = [*two(), "--requests", "41", "--warmup", "4", "--users", "4"]
        outcome = run("closed_loop", server.url, tmp_path / "out", *options)
        assert server.most_in_flight == 4
    assert outcome.code == 0, outcome.stderr[-2000:]
    assert_whole(outcome, 45)
    measured = outcome.measured
    assert len(measured) == 41
    assert len({record.worker for record in measured}) == 2
    # Each worker has its own part of the prompts, also of the warm-up.
    assert len({(record.prompt_id, record.sample) for record in measured}) == 41
    assert not {r.prompt_id for r in outcome.records if not r.measured} & {r.prompt_id for r in measured}
    scenario = outcome.scenario
    assert (scenario["complete"], scenario["incomplete_reason"]) == (True, None)
    assert (scenario["asked"]["users"], scenario["asked"]["requests"], scenario["asked"]["warmup"]) == (4, 41, 4)
    assert scenario["counts"]["ok"] == 41
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "-t"])
def test_a_stop_of_the_master_loses_no_request_of_its_workers(tmp_path: Path, how: str) -> None:
    with ScriptedServer(steady) as server:
        options = [*two(), "--requests", "100000", "--users", "4", *(["-t", "8s"] if how == "-t" else [])]
        process = start("closed_loop", server.url, tmp_path / "out", *options)
        if how != "-t":
            wait_for(lambda: len(server.asked) >= 12, process)
            process.send_signal(signal.Signals[how])
        outcome = finish(process, tmp_path / "out", timeout_s=40)
        asked = len(server.asked)
    assert asked
    assert_whole(outcome, asked)
    assert outcome.kinds == []
    assert outcome.scenario["complete"] is False
    assert "stopped" in outcome.scenario["incomplete_reason"]
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_is_for_the_master_alone(tmp_path: Path, sign: signal.Signals) -> None:
    """As a terminal sends a Ctrl-C: the workers that it forked drain when it says so."""
    with ScriptedServer(steady) as server:
        options = [*two(), "--requests", "100000", "--users", "4"]
        process = start("closed_loop", server.url, tmp_path / "out", *options, group=True)
        wait_for(lambda: len(server.asked) >= 12, process)
        os.killpg(process.pid, sign)
        outcome = finish(process, tmp_path / "out")
        asked = len(server.asked)
    assert outcome.code == 0, outcome.stderr[-3000:]
    assert "Traceback" not in outcome.stderr and "is gone" not in outcome.stderr
    assert outcome.kinds == []
    assert_whole(outcome, asked)


@contextmanager
def workers(url: str, port: int, count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Workers of their own, as on other hosts."""
    argv = [sys.executable, "-m", "locust", "-f", str(ROOT / "locustfiles" / "closed_loop.py"), "--host", url]
    argv += ["--worker", "--master-host", "127.0.0.1", "--master-port", str(port)]
    made = [
        subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(count)
    ]
    try:
        yield made
    finally:
        for one in made:
            if one.poll() is None:
                one.kill()
            one.wait()


@pytest.mark.engines
def test_a_worker_that_is_killed_makes_the_run_incomplete_and_is_named(tmp_path: Path) -> None:
    port = free_port()
    with ScriptedServer(steady) as server, workers(server.url, port, 2) as made:
        options = ["--master", "--master-bind-port", str(port), "--expect-workers", "2"]
        process = start("closed_loop", server.url, tmp_path / "out", *options, "--requests", "60", "--users", "4")
        wait_for(lambda: len(server.asked) >= 8, process)
        os.kill(made[0].pid, signal.SIGKILL)
        outcome = finish(process, tmp_path / "out", timeout_s=60)
        for one in made[1:]:
            assert one.wait(10) is not None
    assert outcome.code == 1
    assert outcome.scenario["complete"] is False
    assert "worker lost" in outcome.scenario["incomplete_reason"]
    assert "is gone" in outcome.stderr
    # The other's part is there to its last request.
    assert max(sum(r.worker == w for r in outcome.records) for w in {r.worker for r in outcome.records}) == 30


def test_a_worker_that_is_told_to_stop_ends_its_own_part_in_order(tmp_path: Path) -> None:
    port = free_port()
    with ScriptedServer(steady) as server, workers(server.url, port, 2) as made:
        options = ["--master", "--master-bind-port", str(port), "--expect-workers", "2"]
        process = start("closed_loop", server.url, tmp_path / "out", *options, "--requests", "60", "--users", "4")
        wait_for(lambda: len(server.asked) >= 8, process)
        made[0].send_signal(signal.SIGTERM)
        outcome = finish(process, tmp_path / "out", timeout_s=60)
        asked = len(server.asked)
    assert len(outcome.records) == asked
    assert outcome.kinds == []
    assert outcome.scenario["complete"] is False


def test_a_worker_of_another_run_is_refused_and_takes_no_load(tmp_path: Path) -> None:
    port = free_port()
    refused = threading.Event()

    def script(asked: Asked) -> Iterator[Action]:
        if asked.number >= 8:
            refused.wait(60)
        yield from steady(asked)

    with ScriptedServer(script) as server:
        options = ["--processes", "2", "--master-bind-port", str(port), "--master-port", str(port)]
        process = start("closed_loop", server.url, tmp_path / "out", *options, "--requests", "80", "--users", "4")
        wait_for(lambda: len(server.asked) >= 8, process)
        try:
            with workers(server.url, port, 1) as stray:
                assert stray[0].wait(50) == 2
        finally:
            refused.set()
        outcome = finish(process, tmp_path / "out")
        assert server.most_in_flight == 4
    assert outcome.code == 0, outcome.stderr[-2000:]
    assert_whole(outcome, 80)
    assert (outcome.scenario["asked"]["users"], outcome.scenario["complete"]) == (4, True)
    assert "it belongs to another run" in outcome.stderr


def test_two_runs_side_by_side_on_one_host_keep_their_own_workers(tmp_path: Path) -> None:
    """Without a port on the command line, as two people type it."""
    names = ("one", "other")
    with ScriptedServer(steady) as server:
        options = ["--processes", "2", "--requests", "40", "--users", "4"]
        runs = {name: start("closed_loop", server.url, tmp_path / name, *options) for name in names}
        outcomes = [finish(process, tmp_path / name) for name, process in runs.items()]
        asked = len(server.asked)
    assert asked == 80
    for outcome in outcomes:
        assert outcome.code == 0, outcome.stderr[-2000:]
        assert_whole(outcome, 40)
        assert (outcome.scenario["asked"]["users"], outcome.scenario["complete"]) == (4, True)


def test_a_failed_request_at_a_worker_fails_the_run(tmp_path: Path) -> None:
    bad = b"HTTP/1.1 400 No\r\nContent-Length: 2\r\n\r\n{}"
    with ScriptedServer(lambda asked: [bad] if asked.number == 3 else steady(asked)) as server:
        options = [*two(), "--requests", "8", "--users", "2"]
        outcome = run("closed_loop", server.url, tmp_path / "out", *options)
    assert (outcome.code, outcome.kinds, outcome.scenario["complete"]) == (1, ["http_status"], True)
    assert outcome.scenario["counts"]["errors_by_kind"] == {"http_status": 1}


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent has died")
def test_workers_end_with_a_master_that_is_killed(tmp_path: Path) -> None:
    with ScriptedServer(steady) as server:
        options = [*two(), "--requests", "100000", "--users", "4"]
        process = start("closed_loop", server.url, tmp_path / "out", *options)
        wait_for(lambda: len(server.asked) >= 8, process)
        children = children_of(process.pid)
        assert len(children) == 2
        process.kill()
        finish(process, tmp_path / "out", timeout_s=20)
        wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in children), timeout_s=20)
    assert not any(record.error for record in read_records(tmp_path / "out" / "requests.jsonl"))


def test_a_mistake_is_told_once_before_any_worker_begins(tmp_path: Path) -> None:
    with ScriptedServer(steady) as server:
        options = [*two(), "--prompts", "/nowhere/mine.jsonl"]
        outcome = run("closed_loop", server.url, tmp_path / "out", *options)
    assert outcome.code == 2
    assert "/nowhere/mine.jsonl" in outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_a_worker_that_is_slow_to_begin_still_takes_only_its_own_part(tmp_path: Path) -> None:
    # Locust counts a worker as ready once it has connected, well before its `init` listeners have run.
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import gevent, os\n"
        "from locust import events\n"
        "from locust.runners import WorkerRunner\n"
        "@events.init.add_listener\n"
        "def late(environment, **_):\n"
        "    if isinstance(environment.runner, WorkerRunner):\n"
        "        gevent.sleep(2)\n"
        "from locustfiles.closed_loop import *\n"
    )
    with ScriptedServer(steady) as server:
        options = [*two(), "--requests", "40", "--users", "4"]
        outcome = run(str(slow.with_suffix("")), server.url, tmp_path / "out", *options)
        asked = len(server.asked)
    assert outcome.code == 0, outcome.stderr[-2000:]
    assert asked == 40
    assert_whole(outcome, 40)


def test_no_worker_measures_before_all_have_warmed_up(tmp_path: Path) -> None:
    first_measured: list[float] = []
    last_warm: list[float] = []

    def script(asked: Asked) -> Iterator[Action]:
        if asked.content.startswith("ask"):
            first_measured.append(time.monotonic())
            yield from steady(asked)
            return
        yield 1.5 if asked.number == 0 else 0.0
        *most, last = steady(asked)
        yield from most
        last_warm.append(time.monotonic())
        yield last

    prompts = prompts_file(tmp_path / "own.jsonl", [f"ask {n}" for n in range(20)])
    with ScriptedServer(script) as server:
        options = [*two(), "--prompts", str(prompts), "--warmup", "2", "--requests", "16", "--users", "4"]
        outcome = run("closed_loop", server.url, tmp_path / "out", *options)
    assert outcome.code == 0, outcome.stderr[-2000:]
    assert_whole(outcome, 18)
    assert len(last_warm) == 2
    assert min(first_measured) > max(last_warm)


def test_more_workers_than_users_are_refused(tmp_path: Path) -> None:
    """The idle one's part of the prompts would never be asked, and the run never end."""
    with ScriptedServer(steady) as server:
        outcome = run("single", server.url, tmp_path / "out", *two(), "--requests", "6")
        asked = len(server.asked)
    assert outcome.code == 2, outcome.stderr[-2000:]
    assert "1 user for 2 workers" in outcome.stderr
    assert asked == 0


def test_a_worker_without_a_prompt_is_refused(tmp_path: Path) -> None:
    """It would look for its next prompt for ever, with the event loop in its hand."""
    prompts = prompts_file(tmp_path / "own.jsonl", ["the only one"])
    with ScriptedServer(steady) as server:
        options = [*two(), "--prompts", str(prompts), "--requests", "6", "--users", "2"]
        outcome = run("closed_loop", server.url, tmp_path / "out", *options)
    assert outcome.code == 2, outcome.stderr[-2000:]
    assert "1 prompt for 2 workers" in outcome.stderr
