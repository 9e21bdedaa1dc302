"""The web UI over HTTP and in a browser, with the load in processes of its own."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from records import Record, read_json, read_records
from tests.locustfiles.load import ROOT, prompts_file
from tests.locustfiles.scripted_server import ScriptedServer, chat

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

    def live(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("/enginebench/live.json").json()
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
    folder: Path, host: str, *options: str, workers: int = 0, files: str = "", prompts: str = ""
) -> Iterator[Web]:
    port, master_port = free_port(), free_port()
    scenario = str(ROOT / "locustfiles" / "closed_loop.py")
    argv = ["locust", "-f", f"{scenario},{files}" if files else scenario, "--host", host]
    argv += ["--web-host", "127.0.0.1", "--web-port", str(port), "--capture-dir", str(folder / "capture")]
    argv += ["--prompts", prompts or str(prompts_file(folder / "asked.jsonl", ["a", "b", "c"])), *options]
    if workers:
        argv += ["--master", "--master-bind-port", str(master_port)]
    with ExitStack() as stack:
        running = stack.enter_context(process(*argv))
        for _ in range(workers):
            join = ["--worker", "--master-host", "127.0.0.1", "--master-port", str(master_port)]
            stack.enter_context(process("locust", "-f", scenario, *join))
        web = Web(f"http://127.0.0.1:{port}", folder / "capture")
        end = time.monotonic() + 40
        while True:
            assert running.poll() is None, running.stderr.read() if running.stderr else ""
            assert time.monotonic() < end
            try:
                if not workers or web.get("/worker-count").json()["worker_count"] == workers:
                    web.get("/login")
                    break
            except requests.ConnectionError:
                pass
            time.sleep(0.1)
        yield web


@contextmanager
def pacing(*options: str) -> Iterator[str]:
    port = free_port()
    with process("engines._pacing_server", "--port", str(port), *options):
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"


def truth(records: list[Record]) -> dict[str, list[float]]:
    """The metrics from the records, by the definitions and not by the code under test."""
    good = [r for r in records if r.measured and r.ok]
    found: dict[str, list[float]] = {"ttft_ms": [], "tpot_ms": [], "icl_ms": []}
    for r in good:
        assert r.first_token_ns and r.last_token_ns and r.sent_ns and r.completion_tokens
        found["ttft_ms"].append((r.first_token_ns - r.sent_ns) / 1e6)
        found["tpot_ms"].append((r.last_token_ns - r.first_token_ns) / 1e6 / (r.completion_tokens - 1))
        found["icl_ms"] += [float(gap) / 1e6 for gap in np.diff(r.chunk_ns)]
    # One token a chunk here.
    return {**found, "itl_ms": found["icl_ms"]}


def assert_agrees(live: dict[str, Any], records: list[Record], rel: float) -> None:
    for name, values in truth(records).items():
        shown = live["latency"][name]
        assert shown["n"] == len(values) > 0
        assert shown["exact"]
        for part in (50, 90, 99):
            assert shown[f"p{part}"] == pytest.approx(np.percentile(values, part), rel=rel), f"{name} p{part}"
    good = [r for r in records if r.measured and r.ok]
    tokens = sum(r.completion_tokens or 0 for r in good)
    assert live["counts"]["tokens"] == tokens
    span = (max(r.end_ns for r in good) - min(r.sent_ns or 0 for r in good)) / 1e9
    assert live["tokens_per_s"] == pytest.approx(tokens / span, rel=0.01)
    assert sum(live["series"]["tokens"]) == pytest.approx(tokens, rel=0.01)


def test_the_figures_are_those_of_the_records_and_a_second_test_starts_from_nothing(tmp_path: Path) -> None:
    with pacing("--ttft-ms", "30", "--interval-ms", "5") as host, web_ui(tmp_path, host) as web:
        assert web.get("/enginebench/requests.jsonl").status_code == 404
        web.start(requests="30", max_tokens="20", warmup="0")
        live = web.until(lambda live: live["test"] == 1 and live["state"] == "stopped")
        first = web.records
        assert len(first) == 30
        assert_agrees(live, first, rel=1e-9)
        assert max(n or 0 for n in live["series"]["in_flight"] or [0]) <= 2
        assert live["clients"]["local"]["cpu_share"] is not None
        downloaded = web.get("/enginebench/requests.jsonl")
        assert downloaded.content == (web.capture / "requests.jsonl").read_bytes()
        assert "attachment" in downloaded.headers["Content-Disposition"]
        summary = web.get("/enginebench/summary.json").json()
        assert summary["scenario_json"]["complete"] is True
        assert summary["counts"]["ok"] == 30

        web.start(requests="10000", max_tokens="20")
        web.until(lambda live: live["test"] == 2 and live["counts"]["ok"] >= 5 and live["in_flight"])
        web.stop()
        live = web.until(lambda live: live["state"] == "stopped")
        assert_agrees(live, web.records, rel=1e-9)
        assert len(web.records) < 1000
        assert len(list(read_records(web.capture / "requests.partial-1.jsonl"))) == 30


def test_two_workers_show_what_their_records_say(tmp_path: Path) -> None:
    with pacing("--ttft-ms", "40", "--interval-ms", "5") as host, web_ui(tmp_path, host, workers=2) as web:
        for test in (1, 2):
            web.start(requests="60", max_tokens="30", user_count="4")
            running = web.until(lambda live, test=test: live["test"] == test and live["counts"]["ok"] >= 60)  # type: ignore[misc]
            assert len(running["clients"]) == 2
            live = web.until(lambda live: live["state"] == "stopped")
            assert len({record.worker for record in web.records}) == 2
            assert_agrees(live, web.records, rel=1e-9)
        assert all("loop_lag_ms_p99" in client or client for client in live["clients"].values())


def test_errors_are_counted_by_kind_and_are_in_no_latency(tmp_path: Path) -> None:
    with pacing() as host, web_ui(tmp_path, host) as web:
        web.start(requests="4", max_tokens="8", model="pacing:bad_json")
        live = web.until(lambda live: live["test"] == 1 and live["state"] == "stopped")
        assert live["errors_by_kind"] == {"bad_json": 4}
        assert live["latency"]["ttft_ms"]["n"] == 0
        assert live["tokens_per_s"] is None


def test_each_form_field_reaches_the_scenario_with_its_type(tmp_path: Path) -> None:
    fields = {
        "requests": "3", "warmup": "1", "max_tokens": "6", "samples": "2", "fixed_length": "true", "seed": "9",
        "model": "m", "request_extras": '{"top_k": 1}', "request_timeout": "12.5", "duration": "30",
    }  # fmt: skip
    prompts = {"prompts": "perf-short"}
    with pacing("--interval-ms", "1") as host, web_ui(tmp_path, host) as web:
        web.start(**fields, **prompts)
        web.until(lambda live: live["test"] == 1 and live["state"] == "stopped")
        asked = read_json(web.capture / "scenario.json")["asked"]
        assert (asked["requests"], asked["warmup"], asked["max_tokens"], asked["samples"]) == (3, 1, 6, 2)
        assert (asked["fixed_length"], asked["seed"], asked["model"], asked["duration_s"]) == (True, 9, "m", 30.0)
        assert asked["request_extras"] == {"top_k": 1}
        form = web.get("/").text
        for name in fields:
            assert f'"{name}"' in form


def test_options_that_cannot_be_used_are_told_on_the_page_and_the_next_test_runs(tmp_path: Path) -> None:
    with pacing("--interval-ms", "1") as host, web_ui(tmp_path, host) as web:
        web.start(requests="3", request_extras="{")
        web.until(lambda live: "--request-extras: not JSON" in (live["problem"] or ""))
        web.start(requests="3", request_extras="{}", max_tokens="5")
        live = web.until(lambda live: live.get("counts", {}).get("ok") == 3)
        assert live["problem"] is None


def test_nothing_is_shown_without_a_login_where_one_is_asked_for(tmp_path: Path) -> None:
    login = tmp_path / "login_file.py"
    login.write_text(LOGIN)
    paths = ["", "live.json", "requests.jsonl", "summary.json", "static/live.js", "static/tab.js"]
    with web_ui(tmp_path, "http://127.0.0.1:9", "--web-login", files=str(login)) as web:
        for path in paths:
            refused = web.http.get(f"{web.url}/enginebench/{path}", allow_redirects=False, timeout=10)
            assert refused.status_code == 302, path
            assert "/login" in refused.headers["Location"]
        web.get("/let-me-in")
        for path in paths:
            assert web.get(f"/enginebench/{path}").status_code == (404 if path == "requests.jsonl" else 200), path
        assert "streaming" in web.get("/").text


def test_no_other_site_may_read_the_figures_and_the_page_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    with web_ui(tmp_path, "http://127.0.0.1:9") as web:
        for path in ("", "live.json", "summary.json"):
            answer = web.http.get(
                f"{web.url}/enginebench/{path}", headers={"Origin": "http://other.example"}, timeout=10
            )
            assert "Access-Control-Allow-Origin" not in answer.headers
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert web.get("/enginebench/static/../../_run.py").status_code == 404
        assert web.get("/enginebench/static/..%2f_run.py").status_code == 404
        page = web.get("/enginebench/").text
        assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
        table = web.get("/stats/requests").json()["extended_stats"]
        assert table == [{"key": "streaming", "data": []}]


def test_a_base_path_moves_the_page_too(tmp_path: Path) -> None:
    with web_ui(tmp_path, "http://127.0.0.1:9", "--web-base-path", "/bench") as web:
        assert web.get("/bench/enginebench/live.json").json()["test"] == 0
        assert "./enginebench/static/tab.js" in web.get("/bench/").text


HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra: browser)")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium on the PATH")
    with playwright.sync_playwright() as running:
        found = running.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield found
        found.close()


def watched(browser: Any, **options: Any) -> tuple[Any, list[str]]:
    """A page, and what went wrong on it or left this host."""
    page, wrong = browser.new_page(**options), []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "request",
        lambda asked: None if "//127.0.0.1:" in asked.url or asked.url.startswith("data:") else wrong.append(asked.url),
    )
    return page, wrong


def test_the_tab_shows_table_and_charts_in_a_browser(tmp_path: Path, browser: Any) -> None:
    with pacing("--ttft-ms", "30", "--interval-ms", "5") as host, web_ui(tmp_path, host) as web:
        web.start(duration="600", max_tokens="20")
        web.until(lambda live: live["test"] == 1 and live["counts"]["ok"] >= 20 and len(live["series"]["t"]) > 3)
        page, wrong = watched(browser)
        page.goto(f"{web.url}/?tab=streaming")
        page.get_by_role("tab", name="Streaming").wait_for()
        page.get_by_role("cell", name="TTFT").wait_for()
        frame = page.frame_locator("iframe")
        frame.locator("path[data-key=ttft_ms_p50]").wait_for(state="attached")
        assert frame.locator("figure").count() == 8
        page.get_by_role("tab", name="Statistics").click()
        page.locator("iframe").wait_for(state="detached")
        assert wrong == []


def test_the_page_holds_the_figures_reads_by_keyboard_and_hostile_text_stays_text(tmp_path: Path, browser: Any) -> None:
    refusal = b"HTTP/1.1 500 " + HOSTILE.encode() + b"\r\nContent-Length: 0\r\n\r\n"

    def script(asked: Any) -> list[Any]:
        return [0.02, chat([HOSTILE, HOSTILE])] if asked.number % 2 else [refusal]

    with ScriptedServer(script) as server, web_ui(tmp_path, server.url) as web:
        web.start(requests="10", prompts=HOSTILE)
        web.until(lambda live: HOSTILE in (live["problem"] or ""))
        web.start(requests="10", max_tokens="20", prompts=str(tmp_path / "asked.jsonl"), model=HOSTILE)
        live = web.until(lambda live: live["state"] == "stopped" and live["test"] == 1)
        for width, theme in ((1200, "light"), (390, "dark")):
            page, wrong = watched(browser, viewport={"width": width, "height": 800}, color_scheme=theme)
            page.goto(f"{web.url}/enginebench/")
            row = page.locator("#latency tr").first
            row.locator("td").nth(1).wait_for()
            shown = row.locator("td").nth(2).inner_text().replace(",", "")
            assert float(shown) == pytest.approx(live["latency"]["ttft_ms"]["p50"], abs=0.006)
            chart = page.get_by_role("img", name="Output tokens a second")
            chart.focus()
            page.keyboard.press("End")
            page.keyboard.press("ArrowLeft")
            assert "tokens/s" in page.locator("figure", has=chart).locator("output").inner_text()
            assert page.evaluate("window.hacked") is None
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert wrong == []


PROFILE = """
name = "p"
description = "for a test"
baseline = "pace"
[[engines]]
name = "pace"
kind = "pacing"
[[cells]]
scenario = "single"
workload = "perf-short"
requests = 1
max_tokens = 5
"""


def test_explore_starts_engine_and_ui_and_leaves_neither(tmp_path: Path) -> None:
    profile = tmp_path / "p.toml"
    profile.write_text(PROFILE)
    argv = [sys.executable, "run_bench.py", "explore", f"{profile}:pace", "--out", str(tmp_path / "out")]
    running = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert running.stdout
        told = next(line for line in running.stdout if "?tab=streaming" in line)
        ui, engine = re.findall(r"http://127\.0\.0\.1:\d+", told)
        web = Web(ui, tmp_path / "out")
        web.start(requests="4", max_tokens="5")
        web.until(lambda live: live["test"] == 1 and live["state"] == "stopped")
        assert sum(record.ok for record in web.records) == 4
    finally:
        running.terminate()
        running.communicate(timeout=40)
    assert running.returncode == 143
    for url in (ui, engine):
        with pytest.raises(requests.ConnectionError):
            requests.get(url, timeout=2)


def test_explore_names_what_is_wrong_with_its_target(tmp_path: Path) -> None:
    profile = tmp_path / "p.toml"
    profile.write_text(PROFILE)
    for target, told in (
        (f"{profile}:nope", "no engine 'nope'; there are pace"),
        ("nothing", "a URL or PROFILE:ENGINE"),
    ):
        argv = [sys.executable, "run_bench.py", "explore", target, "--out", str(tmp_path / "out")]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert told in done.stderr
        assert len(done.stderr.splitlines()) == 1
