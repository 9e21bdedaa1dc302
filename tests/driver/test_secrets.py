"""No secret of a run is left anywhere: each kind is planted, the server quotes them all, and every byte is searched."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.driver.bench import Bench, until

ECHO = '''#!{python}
"""A server that quotes all it knows: its command line, its environment, and each request with its head."""
import http.server, json, os, sys
known = " ".join(sys.argv) + " " + " ".join(f"{{k}}={{v}}" for k, v in os.environ.items() if "SEK" in v)
print(known, flush=True)
port = int(sys.argv[sys.argv.index("--port") + 1])
asked = 0

class Echo(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, json.dumps({{"data": [{{"id": known}}], "status": "ok"}}).encode())

    def do_POST(self):
        global asked
        asked += 1
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        quoted = f"{{self.headers}} {{body}} {{known}}"
        print(quoted, flush=True)
        if asked % 4 == 0:
            return self.answer(401, json.dumps({{"error": {{"message": "bad key: " + quoted}}}}).encode())
        if asked % 4 == 1:
            return self.answer(401, (quoted[:480] + os.environ["HF_TOKEN"])[:495].encode())
        delta = {{"choices": [{{"index": 0, "delta": {{"content": quoted}}, "finish_reason": None}}]}}
        end = {{"choices": [{{"index": 0, "delta": {{}}, "finish_reason": "stop"}}], "system_fingerprint": known,
               "timings": {{"note": known}}, "usage": {{"prompt_tokens": 1, "completion_tokens": 1}}}}
        events = [delta, {{"error": {{"message": quoted}}}} if asked % 4 == 2 else end, ]
        self.answer(200, b"".join(b"data: " + json.dumps(each).encode() + b"\\n\\n" for each in events))

http.server.ThreadingHTTPServer(("127.0.0.1", port), Echo).serve_forever()
'''

PROFILE = """
name = "p"
description = "with ${{PLANTED_TOKEN}}"
baseline = "a"
max_seq_len = 512
on_probe_failure = "void"
[[engines]]
name = "a"
kind = "xserv"
model = "{model}"
binary = "{echo}"
port = {port}
args = ["--api-key", "SEKargs1", "SEKargs2", "--api-key", "-SEKargs3", "--api-key=SEKargs4", "-hft", "SEKargs5",
        "--header", "Authorization: Bearer SEKargs6", "--proxy", "http://me:SEKargs7@proxy:1", "-e", "MY_PAT=SEKargs8",
        "--extra", '{{"secret": "SEKargs9"}}', "--token", "${{PLANTED_TOKEN}}"]
env = {{ HF_TOKEN = "SEKenv01", HF_TOKEN_2 = "SEKenv02", PGPASSWORD = "SEKenv03", GITHUB_PAT = "SEKenv04", \
COOKIE = "SEKenv05", BASIC_AUTH = "SEKenv06", SSH_KEY = "SEKenv07", SESSION_ID = "SEKenv08", \
PROXY = "https://me:SEKenv09@proxy:1" }}
request_extras = {{ api_key = "SEKext01", headers = [{{ Authorization = "Bearer SEKext02", Cookie = "a=SEKext03" }}], \
session = "SEKext04", bearer = ["SEKext05"], password = {{ value = "SEKext06" }} }}
ready_timeout_s = 20
[[cells]]
scenario = "single"
workload = "perf-short"
requests = 12
max_tokens = 8
"""


def planted(path: Path) -> list[str]:
    """The files under a folder that hold a planted secret, with the first of them."""
    found = []
    for file in sorted(path.rglob("*")):
        if file.is_file() and not file.is_symlink() and b"SEK" in (data := file.read_bytes()):
            found.append(f"{file.relative_to(path)}: {data[data.index(b'SEK') - 40 :][:80]!r}")
    return found


def command_lines(bench: Bench) -> set[str]:
    """The command lines of all that a run has started and that lives."""
    lines = set()
    for running in bench.living():
        with contextlib.suppress(psutil.Error):
            lines.add(" ".join(running.cmdline()))
    return lines


@pytest.mark.parametrize("key", ["ENGINEBENCH_API_KEY", "OPENAI_API_KEY"])
def test_a_run_leaves_no_planted_secret_behind_and_shows_none_while_it_runs(tmp_path: Path, key: str) -> None:
    bench = Bench(tmp_path)
    echo = tmp_path / "echo"
    echo.write_text(ECHO.format(python=sys.executable))
    echo.chmod(0o755)
    profile = bench.profile(PROFILE, echo=echo)
    process = bench.start(
        "run", profile, "--run-id", "r", "--keep-raw", "--junit", "j.xml",
        **{key: "SEKclient1", "PLANTED_TOKEN": "SEKvar01"},
    )  # fmt: skip
    shown: set[str] = set()
    while process.poll() is None:
        shown |= command_lines(bench)
        time.sleep(0.05)
    done = bench.finish(process)
    for part in ("locust", "run_bench", "supervisor", str(echo)):
        assert any(part in command for command in shown), part
    # The engine's own command line is what the profile says; no other process shows any of it.
    assert not [
        command for command in shown if "SEK" in command and str(echo) not in command.partition(" --api-key")[0]
    ]
    assert not [command for command in shown if "SEK" in command and "supervisor" in command]
    folder = bench.folder()
    assert list((folder.round("a", 1).cell("single.perf-short").path / "raw").iterdir()), done.stderr
    assert len(list(folder.path.glob("comparison-*"))) == 3, done.stderr
    echo.unlink()
    profile.unlink()
    assert planted(tmp_path) == []
    assert "SEK" not in done.stdout + done.stderr


def test_a_killed_driver_leaves_no_secret_in_a_log(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    echo = tmp_path / "echo"
    echo.write_text(ECHO.format(python=sys.executable))
    echo.chmod(0o755)
    profile = bench.profile(PROFILE.replace("requests = 12", "requests = 2000"), echo=echo)
    process = bench.start("run", profile, "--run-id", "r", ENGINEBENCH_API_KEY="SEKclient1", PLANTED_TOKEN="SEKvar01")
    log = bench.folder().round("a", 1).server_log
    cell = bench.folder().round("a", 1).cell("single.perf-short")
    assert until(lambda: cell.requests.exists() and cell.requests.stat().st_size > 20_000)
    assert b"SEK" not in log.read_bytes()
    process.kill()
    process.communicate()
    assert until(lambda: not bench.living())
    echo.unlink()
    profile.unlink()
    assert b"***" in log.read_bytes()
    assert planted(tmp_path) == []
