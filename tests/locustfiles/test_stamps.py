"""When bytes arrived: as the kernel dates them, whatever the load process was doing meanwhile."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from locustfiles._stamps import MAX_AGE_NS, SO_TIMESTAMPNS, TIMESPEC, arrival_ns
from tests.locustfiles import load
from tests.locustfiles.scripted_server import END, HEAD, Action, Asked, ScriptedServer, chunk, events

WALL_NS, NOW_NS = 1_700_000_000_000_000_000, 5_000_000_000


def control(age_ns: int) -> list[tuple[int, int, bytes]]:
    """The control message of bytes that came in `age_ns` before the read."""
    return [(1, SO_TIMESTAMPNS, TIMESPEC.pack(*divmod(WALL_NS - age_ns, 1_000_000_000)))]


def test_bytes_are_dated_by_their_arrival_on_the_monotonic_clock() -> None:
    assert arrival_ns(control(1_500_000_000), WALL_NS, NOW_NS) == NOW_NS - 1_500_000_000


@pytest.mark.parametrize("age_ns", [-1, -3_600_000_000_000, MAX_AGE_NS, 3_600_000_000_000])
def test_a_wall_clock_that_was_set_between_arrival_and_read_dates_nothing(age_ns: int) -> None:
    assert arrival_ns(control(age_ns), WALL_NS, NOW_NS) == NOW_NS


@pytest.mark.parametrize("told", [[], [(1, SO_TIMESTAMPNS, b"12345678")]])
def test_without_a_time_of_the_kernel_the_read_dates(told: list[tuple[int, int, bytes]]) -> None:
    assert arrival_ns(told, WALL_NS, NOW_NS) == NOW_NS


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux dates what arrives")
def test_a_load_process_that_was_held_up_dates_tokens_by_their_arrival(tmp_path: Path) -> None:
    running: list[subprocess.Popen[str]] = []
    sent_ns: list[int] = []

    def script(_: Asked) -> Iterator[Action]:
        role, *texts, finish, usage, done = events(["one", " two", " three"])
        yield HEAD + chunk(role)
        for text in texts:
            yield 0.2
            os.kill(running[0].pid, signal.SIGSTOP)
            sent_ns.append(time.monotonic_ns())
            yield chunk(text)
            yield 0.4
            os.kill(running[0].pid, signal.SIGCONT)
        yield 0.2
        yield b"".join(map(chunk, (finish, usage, done))) + END

    with ScriptedServer(script) as server:
        options = ["--requests", "1", "--prompts", "arithmetic"]
        running.append(load.start("single", server.url, tmp_path, *options))
        outcome = load.finish(running[0], tmp_path)
    (record,) = outcome.measured
    assert record.ok, outcome.stderr
    late_ms = [(seen - sent) / 1e6 for seen, sent in zip(record.chunk_ns, sent_ns, strict=True)]
    assert all(0 <= late < 100 for late in late_ms), late_ms
    assert outcome.scenario["client"]["arrival_stamps"] == "kernel"
    assert outcome.scenario["client"]["loop_lag_ms_max"] > 200
