"""Start, stop and start again from Locust's web UI, through the requests that its page sends."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from records import read_json, read_records
from tests.load.load import ROOT
from tests.load.scripted_server import Action, Asked, ScriptedServer, paced


def steady(asked: Asked) -> list[Action]:
    return list(paced(["a"] * 3, first_s=0.02, gap_s=0.02))


class Page:
    """What a person does at the web UI."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> bytes:
        with urllib.request.urlopen(self._url + path, timeout=10) as reply:
            data: bytes = reply.read()
        return data

    def post(self, path: str, **fields: str) -> dict[str, Any]:
        data = urllib.parse.urlencode(fields).encode()
        with urllib.request.urlopen(self._url + path, data, timeout=60) as reply:
            answer: dict[str, Any] = json.loads(reply.read())
        return answer

    @property
    def state(self) -> str:
        return str(json.loads(self.get("/stats/requests"))["state"])


def wait_for(what: Callable[[], bool], *, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def is_up(page: Page) -> bool:
    try:
        page.get("/")
    except (urllib.error.URLError, ConnectionError):
        return False
    return True


@contextmanager
def web_ui(scenario: str, url: str, log: Path) -> Iterator[tuple[Page, subprocess.Popen[bytes]]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [sys.executable, "-m", "locust", "-f", str(ROOT / "locustfiles" / f"{scenario}.py"), "--host", url]
    argv += ["--web-host", "127.0.0.1", "--web-port", str(port)]
    with log.open("wb") as out:
        process = subprocess.Popen(argv, cwd=ROOT, stdout=out, stderr=out, env={**os.environ})
    page = Page(port)
    try:
        wait_for(lambda: is_up(page) or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield page, process
    finally:
        process.terminate()
        process.wait(20)


def ended(folder: Path) -> bool:
    path = folder / "scenario.json"
    return path.exists() and read_json(path)["ended_utc"] is not None


def test_a_person_starts_stops_and_starts_again_with_options_as_fields(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with ScriptedServer(steady) as server, web_ui("closed_loop", server.url, log) as (page, process):
        form = {"user_count": "4", "spawn_rate": "4", "host": server.url, "max_tokens": "9", "warmup": "3"}
        first = tmp_path / "first"
        assert page.post("/swarm", **form, requests="8", capture_dir=str(first))["success"] is True
        wait_for(lambda: ended(first))
        scenario = read_json(first / "scenario.json")
        assert (scenario["complete"], scenario["counts"]["ok"], scenario["counts"]["warmup"]) == (True, 8, 3)
        assert {asked.body["max_tokens"] for asked in server.asked} == {9}
        wait_for(lambda: page.state in ("stopped", "ready"))

        # Numbers, flags and floats arrive as the strings of a form.
        second = tmp_path / "second"
        form |= {"warmup": "0", "requests": "100000", "silence_timeout": "7.5", "fixed_length": "true"}
        assert page.post("/swarm", **form, capture_dir=str(second))["success"] is True
        wait_for(lambda: (second / "requests.jsonl").exists() and len(server.asked) > 20)
        page.post("/stop")
        wait_for(lambda: ended(second))
        scenario = read_json(second / "scenario.json")
        assert (scenario["complete"], scenario["asked"]["fixed_length"]) == (False, True)
        assert "stopped" in scenario["incomplete_reason"]
        assert server.asked[-1].body["ignore_eos"] is True
        records = list(read_records(second / "requests.jsonl"))
        assert len(records) == len(server.asked) - 11
        assert all(record.ok for record in records)

        third = tmp_path / "third"
        form |= {"requests": "5", "fixed_length": "false", "user_count": "2"}
        assert page.post("/swarm", **form, capture_dir=str(third))["success"] is True
        wait_for(lambda: ended(third))
        scenario = read_json(third / "scenario.json")
        assert (scenario["complete"], scenario["counts"]["ok"], scenario["asked"]["users"]) == (True, 5, 2)
        assert process.poll() is None
    assert "Traceback" not in log.read_text()


def test_a_mistake_in_a_field_is_one_line_in_the_log_and_the_next_start_works(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with ScriptedServer(steady) as server, web_ui("concurrent_4", server.url, log) as (page, process):
        form = {"user_count": "4", "spawn_rate": "4", "host": server.url, "requests": "4"}
        page.post("/swarm", **form, prompts="/nowhere/mine.jsonl", capture_dir=str(tmp_path / "no"))
        wait_for(lambda: "/nowhere/mine.jsonl" in log.read_text())
        wait_for(lambda: page.state in ("stopped", "ready"))
        assert not server.asked
        page.post("/swarm", **form, prompts="perf-short", capture_dir=str(tmp_path / "yes"))
        wait_for(lambda: ended(tmp_path / "yes"))
        assert read_json(tmp_path / "yes" / "scenario.json")["complete"] is True
        wait_for(lambda: page.state in ("stopped", "ready"))
        page.post("/swarm", **form, prompts="perf-short", request_extras="[]", capture_dir=str(tmp_path / "no"))
        wait_for(lambda: "--request-extras" in log.read_text())
        assert page.state in ("stopped", "ready")
        page.post("/swarm", **form, prompts="perf-short", request_extras="{}", capture_dir=str(tmp_path / "again"))
        wait_for(lambda: ended(tmp_path / "again"))
        assert process.poll() is None
    assert "Traceback" not in log.read_text()
