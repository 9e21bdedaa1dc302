"""Locust with the web UI, and the pacing server before it, each in processes of their own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import requests

from records import Record, read_records
from tests.load.load import ROOT, prompts_file

LOGIN = """
import flask, flask_login
from locust import events

class Person(flask_login.UserMixin):
    id = "me"

@events.init.add_listener
def login(environment, **_):
    web = environment.web_ui
    web.app.secret_key = "for this test"
    web.login_manager.user_loader(lambda name: Person())

    @web.app.route("/let-me-in")
    def let_me_in():
        flask_login.login_user(Person())
        return "in"
"""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Web:
    """A Locust with a web UI, as a browser would use it."""

    def __init__(self, url: str, capture: Path) -> None:
        self.url, self.capture, self.http = url, capture, requests.Session()

    def get(self, path: str) -> requests.Response:
        return self.http.get(self.url + path, timeout=10)

    def log_in(self) -> None:
        assert self.get("/let-me-in").ok

    def live(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("/enginebench/live.json").json()
        return found

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("/enginebench/summary.json").json()
        return found

    def start(self, **fields: str) -> None:
        answer = self.http.post(
            self.url + "/swarm", data={"user_count": "2", "spawn_rate": "100", **fields}, timeout=10
        )
        assert answer.json()["success"], answer.text

    def stop(self) -> None:
        assert self.http.post(self.url + "/stop", timeout=30).ok

    def until(self, holds: Callable[[dict[str, Any]], Any], timeout_s: float = 40) -> dict[str, Any]:
        """Wait until what is shown is as the test wants it."""
        end = time.monotonic() + timeout_s
        while not holds(live := self.live()):
            assert time.monotonic() < end, json.dumps({k: v for k, v in live.items() if k != "series"})[:3000]
            time.sleep(0.1)
        return live

    @property
    def records(self) -> list[Record]:
        return list(read_records(self.capture / "requests.jsonl"))


@contextmanager
def process(*argv: str) -> Iterator[subprocess.Popen[bytes]]:
    running = subprocess.Popen(
        [sys.executable, "-m", *argv], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        yield running
    finally:
        running.terminate()
        try:
            running.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            running.kill()
            running.communicate()


@contextmanager
def web_ui(
    folder: Path,
    host: str,
    *options: str,
    workers: int = 0,
    login: bool = False,
    prompts: str = "",
    scenario: str = "closed_loop",
) -> Iterator[Web]:
    """With workers it is ready when all of them are there, and logged in where a login is asked for."""
    port, master_port = free_port(), free_port()
    file = str(ROOT / "locustfiles" / f"{scenario}.py")
    files = [file]
    if login:
        (folder / "login_file.py").write_text(LOGIN)
        files.append(str(folder / "login_file.py"))
    argv = ["locust", "-f", ",".join(files), "--host", host, *(["--web-login"] if login else [])]
    argv += ["--web-host", "127.0.0.1", "--web-port", str(port), "--capture-dir", str(folder / "capture")]
    argv += ["--prompts", prompts or str(prompts_file(folder / "asked.jsonl", ["a", "b", "c"])), *options]
    if workers:
        argv += ["--master", "--master-bind-port", str(master_port)]
    with ExitStack() as stack:
        running = stack.enter_context(process(*argv))
        for _ in range(workers):
            join = ["--worker", "--master-host", "127.0.0.1", "--master-port", str(master_port)]
            stack.enter_context(process("locust", "-f", file, *join))
        web = Web(f"http://127.0.0.1:{port}", folder / "capture")
        end = time.monotonic() + 40
        while True:
            assert running.poll() is None, running.stderr.read() if running.stderr else ""
            assert time.monotonic() < end
            try:
                web.get("/login")
                if workers and login:
                    web.log_in()
                if not workers or web.get("/worker-count").json()["worker_count"] == workers:
                    break
            except requests.ConnectionError:
                pass
            time.sleep(0.1)
        yield web


@contextmanager
def pacing(*options: str) -> Iterator[str]:
    port = free_port()
    with process("engines.pacing_server", "--port", str(port), *options):
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
