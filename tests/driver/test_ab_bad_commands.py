"""`ab` with commands that misbehave: each ends in one line and a documented exit code, and leaves nothing behind."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from records import read_json
from tests.driver.bench import Bench, Done
from tests.engines.helpers import ROOT

PACING = f"{sys.executable} -m engines.pacing_server --host {{host}} --port {{port}} --ttft-ms 1 --interval-ms 1"
SECRETS = ("sk-typed-secret-1234", "hf-secret-of-env-5678")


def python(code: str, *words: str) -> str:
    # Without line breaks, which the hint that goes on would have too.
    return shlex.join([sys.executable, "-u", "-c", f"exec({code!r})", "{port}", *words])


NEVER_READY = python("print('loading the weights'); import time; time.sleep(600)")
NEVER_READY_BUT_LISTENS = python(
    "import http.server, sys\n"
    "class Loading(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self): self.send_error(503)\n"
    "http.server.HTTPServer(('127.0.0.1', int(sys.argv[1])), Loading).serve_forever()"
)
DIES = python("import sys; sys.exit('no such option: --fast')")
PRINTS_SECRETS = python(
    "import os, sys; sys.exit('refused: ' + sys.argv[3] + ' and ' + os.environ['HF_TOKEN'])", "--api-key", SECRETS[0]
)
DAEMON = python("import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(600)")
STUBBORN = python(
    # The child leaves its group and session, and neither ends by SIGTERM.
    "import os, runpy, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    time.sleep(600)\n"
    "import gevent.signal\n"
    "signal.signal = lambda *_: None\n"
    "sys.argv = ['pacing', '--port', sys.argv[1], '--ttft-ms', '1', '--interval-ms', '1']\n"
    "runpy.run_module('engines.pacing_server', run_name='__main__')"
)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def ab(bench: Bench, command: str, *options: str) -> Done:
    asked = (
        "--name",
        "bad",
        "--name",
        "good",
        "--users",
        "1",
        "--rounds",
        "1",
        "--time",
        "2s",
        "--run-id",
        "r",
        "--ready-timeout",
        "8s",
        *options,
    )
    return bench.run("ab", command, PACING, *asked, PYTHONPATH=str(ROOT))


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (NEVER_READY, "not ready within 8 s; its log bench-out/r/bad/r1/server.log ends: loading the weights"),
        (NEVER_READY_BUT_LISTENS, "not ready within 8 s"),
        (DIES, "(exit code 1): no such option: --fast"),
        (DAEMON, "must stay in the foreground"),
    ],
    ids=["never ready", "never ready but listening", "dies", "daemon"],
)
def test_a_command_that_cannot_be_measured_ends_in_one_line(bench: Bench, command: str, says: str) -> None:
    done = ab(bench, command)
    assert done.code == 4
    assert says in done.line and "go on with: " in done.line


def test_a_command_that_prints_secrets_shows_none(bench: Bench) -> None:
    done = ab(bench, PRINTS_SECRETS, "--env", f"HF_TOKEN={SECRETS[1]}")
    assert done.code == 4 and "refused: " in done.line
    kept = [path.read_text(errors="replace") for path in bench.path.rglob("*") if path.is_file()]
    assert kept and not any(secret in text for secret in SECRETS for text in (done.stdout, done.stderr, *kept))


@pytest.mark.engines
def test_a_server_that_ignores_sigterm_and_left_a_child_elsewhere_is_measured_and_gone(bench: Bench) -> None:
    done = ab(bench, STUBBORN)
    # `Bench.run` has made sure that neither of them lives.
    process = read_json(bench.folder().round("bad", 1).engine_json)
    assert done.code in (0, 3) and process["exit_code"] == -9
    assert (process["machine"]["processes_left"], process["machine"]["port_free_after"]) == (0, True)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("server --fast", "has no {port}"),
        ("no-such-server --port {port}", "no executable 'no-such-server'"),
        (f"'{sys.executable} --port {{port}}", "not a command line"),
        ("API_KEY=x", "holds no program"),
    ],
)
def test_a_command_that_cannot_be_started_is_reported_before_anything_is(bench: Bench, command: str, says: str) -> None:
    done = ab(bench, command)
    assert done.code in (2, 4) and says in done.line
