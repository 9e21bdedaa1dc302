"""The pacing server keeps its schedule, tells what it did, and breaks streams as it is asked."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from engines import EngineConfig, EngineError, create
from engines.pacing import Pacing
from engines.pacing_server.schedule import FAULTS, VARIANTS, Schedule, asked_schedule
from engines.pacing_server.script import End, script

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    argv = [sys.executable, "-m", "engines.pacing_server", "--ttft-ms", "20", "--interval-ms", "10", "--tokens", "5"]
    argv.append("--stamps")
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("listening on ").strip()
        process.terminate()
    assert process.returncode == 0


@pytest.fixture(autouse=True)
def forgotten(url: str) -> None:
    """Each test sees only its own requests in the server's log."""
    log(url)


def ask(url: str, **fields: Any) -> requests.Response:
    body = {"model": "pacing", "messages": [{"role": "user", "content": "hi"}], "stream": True, **fields}
    return requests.post(f"{url}/v1/chat/completions", json=body, timeout=10)


def log(url: str) -> dict[str, Any]:
    found: dict[str, Any] = requests.get(f"{url}/requests", timeout=10).json()
    return found


def data(answer: requests.Response) -> list[str]:
    return [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]


def contents(answer: requests.Response) -> list[str]:
    events = [json.loads(one) for one in data(answer) if one != "[DONE]"]
    return [
        e["choices"][0]["delta"]["content"] for e in events if e["choices"] and e["choices"][0]["delta"].get("content")
    ]


def test_the_role_chunk_comes_first_and_the_end_is_finish_reason_usage_and_done(url: str) -> None:
    *events, done = data(ask(url, max_tokens=3))
    first, *_, finish, usage = (json.loads(one) for one in events)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert finish["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 3
    assert done == "[DONE]"


def test_every_chunk_carries_its_send_stamp_and_the_log_agrees(url: str) -> None:
    stamps = [int(content) for content in contents(ask(url, max_tokens=4))]
    (row,) = log(url)["requests"]
    assert stamps == sorted(stamps)
    assert (stamps[0], stamps[-1], len(stamps)) == (row["first_ns"], row["last_ns"], row["chunks"])
    assert row["received_ns"] < row["first_ns"]


def test_equal_prompts_get_equal_answers_where_no_stamps_are_asked_for(url: str) -> None:
    first, second = (contents(ask(url, max_tokens=4, pacing={"stamps": False})) for _ in range(2))
    assert first == second == [" " + "0" * 18] * 4


def test_nothing_is_sent_before_it_is_due(url: str) -> None:
    stamps = [int(content) for content in contents(ask(url, max_tokens=6))]
    (row,) = log(url)["requests"]
    for number, stamp in enumerate(stamps):
        due = row["received_ns"] + 20_000_000 + number * 10_000_000
        assert 0 <= stamp - due <= row["late_ns"]


def test_the_log_is_handed_over_once(url: str) -> None:
    ask(url, max_tokens=1)
    assert len(log(url)["requests"]) == 1
    assert log(url)["requests"] == []


def test_a_request_may_change_the_schedule(url: str) -> None:
    answer = ask(url, max_tokens=10, pacing={"tokens_per_chunk": 4, "ttft_ms": 0, "interval_ms": 1})
    assert [content.split()[1:] for content in contents(answer)] == [["on"] * 3] * 3
    (row,) = log(url)["requests"]
    assert (row["chunks"], row["tokens"]) == (3, 10)


def test_on_a_grid_sends_are_due_at_multiples_of_the_interval(url: str) -> None:
    stamps = [int(content) for content in contents(ask(url, max_tokens=5, pacing={"grid": True}))]
    (row,) = log(url)["requests"]
    assert all(stamp % 10_000_000 <= row["late_ns"] for stamp in stamps)


def test_a_connection_is_kept_for_the_next_request(url: str) -> None:
    with requests.Session() as session:
        ports = set()
        for _ in range(3):
            body = {"model": "pacing", "messages": [], "stream": True, "max_tokens": 1}
            with session.post(f"{url}/v1/chat/completions", json=body, stream=True, timeout=10) as answer:
                connection: Any = answer.raw.connection
                ports.add(connection.sock.getsockname()[1])
                assert data(answer)[-1] == "[DONE]"
    assert len(ports) == 1


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"pacing": {"fault": "earthquake"}}, "earthquake"),
        ({"model": "pacing:earthquake"}, "earthquake"),
        ({"pacing": {"speed": 1}}, "speed"),
        ({"pacing": {"ttft_ms": -1}}, "ttft_ms"),
        ({"max_tokens": 0.5}, "tokens"),
        ({"pacing": []}, None),
    ],
)
def test_a_schedule_that_cannot_be_is_refused_with_its_name(url: str, fields: dict[str, Any], word: str | None) -> None:
    answer = ask(url, **fields)
    if word is None:
        assert answer.status_code == 200
        return
    assert answer.status_code == 400
    assert word in answer.json()["error"]["message"]


def test_bytes_that_are_no_json_are_refused(url: str) -> None:
    answer = requests.post(f"{url}/v1/chat/completions", data=b"{", timeout=10)
    assert answer.status_code == 400


def raw(url: str, model: str) -> bytes:
    """All bytes of a response until the server closes, or is silent for a while."""
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps({"model": model, "stream": True, "max_tokens": 4}).encode()
    got = b""
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        connection.settimeout(0.5)
        try:
            while piece := connection.recv(65536):
                got += piece
        except TimeoutError:
            return got + b"<silence>"
        except ConnectionResetError:
            return got + b"<reset>"
    return got + b"<closed>"


@pytest.mark.parametrize(
    ("fault", "begin", "inside", "end"),
    [
        ("status_500", b"HTTP/1.1 500", b"failed", b"}<silence>"),
        ("rate_limited", b"HTTP/1.1 429", b"Retry-After: 1", b"}<silence>"),
        ("busy", b"HTTP/1.1 503", b"Retry-After: 1", b"}<silence>"),
        ("redirect", b"HTTP/1.1 307", b"Location:", b"<silence>"),
        ("in_band_error", b"HTTP/1.1 200", b'data: {"error"', b"0\r\n\r\n<silence>"),
        ("error_line", b"HTTP/1.1 200", b'error: {"error"', b"0\r\n\r\n<silence>"),
        ("reset", b"HTTP/1.1 200", b'"content":" 0', b"<reset>"),
        ("abort", b"HTTP/1.1 200", b'"content":" 0', b"<closed>"),
        ("silence", b"HTTP/1.1 200", b'"content":" 0', b"\r\n<silence>"),
        ("no_answer", b"<silence>", b"", b"<silence>"),
        ("no_finish_reason", b"HTTP/1.1 200", b"[DONE]", b"0\r\n\r\n<silence>"),
        ("finish_null", b"HTTP/1.1 200", b'"delta":{},"finish_reason":null', b"0\r\n\r\n<silence>"),
        ("empty", b"HTTP/1.1 200", b'"finish_reason":"stop"', b"0\r\n\r\n<silence>"),
        ("bad_frame", b"HTTP/1.1 200", b"zz\r\n", b"<closed>"),
        ("encoded", b"HTTP/1.1 200", b"Content-Encoding: gzip", b"0\r\n\r\n<silence>"),
        ("usage_zero", b"HTTP/1.1 200", b'"completion_tokens":0', b"0\r\n\r\n<silence>"),
        ("crlf", b"HTTP/1.1 200", b"data: [DONE]\r\n\r\n", b"0\r\n\r\n<silence>"),
        ("pings", b"HTTP/1.1 200", b": ping\n\n", b"0\r\n\r\n<silence>"),
        ("close_delimited", b"HTTP/1.1 200", b"Connection: close", b"data: [DONE]\n\n<closed>"),
        ("no_role", b"HTTP/1.1 200", b'"content":" 0', b"0\r\n\r\n<silence>"),
    ],
)
def test_a_fault_is_made_as_it_is_named(url: str, fault: str, begin: bytes, inside: bytes, end: bytes) -> None:
    got = raw(url, f"pacing:{fault}")
    assert got.startswith(begin)
    assert inside in got
    assert got.endswith(end)


def test_a_client_that_leaves_is_noted_as_unfinished(url: str) -> None:
    raw(url, "pacing:silence")
    report = log(url)
    assert report["unfinished"] == 1
    assert [row["finished"] for row in report["requests"]] == [0]
    assert report["open"] == 0


@pytest.mark.parametrize("fault", [*FAULTS, *VARIANTS])
def test_every_fault_differs_from_the_good_answer(fault: str) -> None:
    good = script(Schedule(tokens=10), 5)
    bad = script(Schedule(tokens=10, fault=fault), 5)
    assert bad != good
    assert good.end is End.KEEP


def test_max_tokens_is_the_number_of_tokens() -> None:
    assert asked_schedule({"max_tokens": 7}, Schedule()).tokens == 7
    assert asked_schedule({"max_completion_tokens": 8}, Schedule()).tokens == 8
    assert asked_schedule({}, Schedule(tokens=9)).tokens == 9


def test_the_adapter_names_an_option_that_there_is_not() -> None:
    with pytest.raises(EngineError, match=r"options\.speed: unknown; known are .*ttft_ms"):
        create(EngineConfig("fake", "pacing", options={"speed": 3}))


def test_the_adapter_passes_its_options_on() -> None:
    engine = create(EngineConfig("fake", "pacing", options={"ttft_ms": 5, "grid": True}, port=1))
    assert isinstance(engine, Pacing)
    assert engine.argv()[-3:] == ["--ttft-ms", "5", "--grid"]
    assert engine.read_back().extra["ttft_ms"] == 5
