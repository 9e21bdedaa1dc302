"""When bytes arrived: as the kernel dates them, whatever the load process was doing meanwhile."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from load.health import Health
from load.http.stamps import SO_TIMESTAMPNS, TIMESPEC, arrival_ns
from tests.load import load
from tests.load.scripted_server import END, HEAD, Action, Asked, ScriptedServer, chat, chunk, events

STOP_MS = 400.0
WALL_NS, NOW_NS, SENT_NS = 1_700_000_000_000_000_000, 5_000_000_000, 3_000_000_000


def control(age_ns: int) -> list[tuple[int, int, bytes]]:
    """The control message of bytes that came in `age_ns` before the read."""
    return [(1, SO_TIMESTAMPNS, TIMESPEC.pack(*divmod(WALL_NS - age_ns, 1_000_000_000)))]


@pytest.mark.parametrize("age_ns", [1, 1_500_000_000, NOW_NS - SENT_NS])
def test_bytes_are_dated_by_their_arrival_on_the_monotonic_clock(age_ns: int) -> None:
    assert arrival_ns(control(age_ns), WALL_NS, NOW_NS, SENT_NS) == NOW_NS - age_ns


@pytest.mark.parametrize("age_ns", [-3_600_000_000_000, -1, 0, NOW_NS - SENT_NS + 1, 3_600_000_000_000])
def test_a_time_before_the_last_stamp_or_behind_the_read_dates_nothing(age_ns: int) -> None:
    assert arrival_ns(control(age_ns), WALL_NS, NOW_NS, SENT_NS) == NOW_NS


@pytest.mark.parametrize("told", [[], [(1, SO_TIMESTAMPNS, b"12345678")]])
def test_without_a_time_of_the_kernel_the_read_dates(told: list[tuple[int, int, bytes]]) -> None:
    assert arrival_ns(told, WALL_NS, NOW_NS, SENT_NS) == NOW_NS


def test_a_server_that_speaks_before_it_is_asked_is_not_faster_than_light(tmp_path: Path) -> None:
    # On a connection of its own each time: whether the answer or the request is faster differs from one to the next.
    said = chat(["one", " two"]).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError), ExitStack() as kept:
                while True:
                    connection = kept.enter_context(listener.accept()[0])
                    connection.sendall(said)

        speaker = threading.Thread(target=serve)
        speaker.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        outcome = load.run("single", url, tmp_path, "--requests", "40", "--prompts", "arithmetic")
        listener.shutdown(socket.SHUT_RDWR)
        speaker.join()
    assert len(outcome.records) == 40 and all(record.ok for record in outcome.records), outcome.stderr
    assert all((record.first_token_ns or 0) >= (record.sent_ns or 0) > 0 for record in outcome.records)


def test_a_new_window_forgets_who_dated_the_warm_up() -> None:
    health = Health()
    health.dated(by_kernel=False)
    health.start()
    assert health.summary()["arrival_stamps"] is None
    health.dated(by_kernel=True)
    assert health.summary()["arrival_stamps"] == "kernel"
    health.dated(by_kernel=False)
    assert health.summary()["arrival_stamps"] == "mixed"
    health.stop()


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
            yield STOP_MS / 1e3
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
    assert all(0 <= late < STOP_MS / 2 for late in late_ms), late_ms
    assert outcome.scenario["client"]["arrival_stamps"] == "kernel"
    assert outcome.scenario["client"]["loop_lag_ms_max"] > STOP_MS / 2
