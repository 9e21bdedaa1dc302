"""Any server from its command line: filled in, started where it was typed, and gone afterwards whatever it does."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from engines import EngineConfig, EngineError, create, probe, running
from engines.base import Engine
from engines.process import lifecycle
from engines.process.port import port_is_free
from records.redaction import scrub
from tests.engines.helpers import ROOT, STANDIN, model_folder

PACING = (sys.executable, "-m", "engines.pacing_server", "--host", "{host}", "--port", "{port}")
SERVER = """
import http.server, os, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.end_headers()
        self.wfile.write(b'{"data": [{"id": "/models/m.gguf", "max_model_len": 512}]}')
    def log_message(self, *words): pass
"""


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(lifecycle, "STOP_GRACE_S", 0.5)


def command(*words: str, **changes: Any) -> Engine:
    return create(EngineConfig("c", "command", command=words, **changes))


def python(code: str, *words: str, **changes: Any) -> Engine:
    return command(sys.executable, "-u", "-c", SERVER + code, "{port}", *words, **changes)


def refusal(engine: Engine, tmp_path: Path, timeout_s: float = 20) -> str:
    with pytest.raises(EngineError) as error, running(engine, tmp_path / "server.log", ready_timeout_s=timeout_s):
        pass
    assert "\n" not in str(error.value) and port_is_free("127.0.0.1", engine.config.port)
    return str(error.value)


SERVE = 'http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()'


def test_a_server_of_any_kind_is_started_probed_and_gone(tmp_path: Path) -> None:
    engine = command(*PACING, "--ttft-ms", "1", "--interval-ms", "1")
    with running(engine, tmp_path / "server.log", ready_timeout_s=20) as alive:
        assert probe(engine, sampling={})["fixed_length"] is not False
        pid = alive.pid
    assert pid and not psutil.pid_exists(pid) and alive.processes_left == 0


def test_a_report_of_another_type_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = command(*PACING)
    junk: dict[str, dict[str, Any]] = {
        "/props": {
            "default_generation_settings": ["x"],
            "total_slots": "4",
            "chat_template": 5,
            "build_info": {"a": 1},
        },
        "/v1/models": {"data": [{"id": 5, "owned_by": ["x"], "max_model_len": "many"}]},
    }
    monkeypatch.setattr(engine, "get", lambda path: junk.get(path, {}))
    told = engine.read_back()
    assert (told.build, told.model, told.context_per_slot, told.slots, told.chat_template_sha256) == (None,) * 5


def test_what_a_server_does_not_report_is_unknown(tmp_path: Path) -> None:
    engine = python(SERVE)
    with running(engine, tmp_path / "server.log", ready_timeout_s=20):
        told = engine.read_back()
    assert (told.build, told.model, told.context_per_slot, told.slots) == (None, "m.gguf", 512, None)


def test_its_command_is_filled_in_and_runs_where_it_was_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    engine = python("print(os.getcwd(), *sys.argv[2:]);" + SERVE, "{model}", "{slots}x{max_seq_len}", '{"a": 1}',
                    model=tmp_path / "model", slots=3, max_seq_len=99)  # fmt: skip
    with running(engine, tmp_path / "server.log", ready_timeout_s=20):
        pass
    assert (tmp_path / "server.log").read_text() == f'{tmp_path} {tmp_path}/model 3x99 {{"a": 1}}\n'


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("server", "--fast"), "its command has no {port}"),
        (("no-such-server", "{port}"), "no executable 'no-such-server'"),
        ((sys.executable, "{port}", "{model}"), "has {model}, but no `model`"),
        ((), "needs `command`"),
    ],
)
def test_a_command_that_cannot_work_is_rejected_before_it_is_started(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(EngineError, match="c: ") as error:
        command(*words).check()
    assert says in str(error.value)


def test_a_command_that_never_gets_ready_is_ended_with_its_last_words(tmp_path: Path) -> None:
    engine = python("print('loading'); import time; time.sleep(60)")
    assert "not ready within 4 s" in (line := refusal(engine, tmp_path, 4)) and line.endswith("ends: loading")


def test_a_command_that_dies_is_quoted_without_its_secrets(tmp_path: Path) -> None:
    engine = python("sys.exit('bad key ' + sys.argv[3] + os.environ['HF_TOKEN'])", "--api-key", "sk-secret-1234",
                    env={"HF_TOKEN": "hf-secret-5678"})  # fmt: skip
    assert "(exit code 1)" in (line := scrub(refusal(engine, tmp_path))) and "bad key ******" in line
    assert "sk-secret-1234" not in (log := (tmp_path / "server.log").read_text()) and "hf-secret-5678" not in log


def test_a_command_that_puts_itself_in_the_background_is_explained_and_ended(tmp_path: Path) -> None:
    engine = python("os.fork() and os._exit(0); os.setsid(); " + SERVE)
    assert "must stay in the foreground" in refusal(engine, tmp_path)


def test_a_command_that_forks_and_ignores_sigterm_leaves_nothing(tmp_path: Path) -> None:
    engine = python("import signal; signal.signal(15, signal.SIG_IGN); os.fork(); os.fork()\ntry: " + SERVE
                    + "\nexcept OSError: signal.pause()")  # fmt: skip
    with running(engine, tmp_path / "server.log", ready_timeout_s=20) as alive:
        assert alive.pid
    assert alive.processes_left == 0 and alive.port_free_after and alive.exit_code == -9


def test_a_command_line_in_a_profile_is_split_as_a_shell_does(tmp_path: Path) -> None:
    from driver.profile.read import ProfileError, parse_profile
    from driver.profile.redacted import shown_profile

    def profile(**changes: Any) -> Any:
        engine = {"name": "a", "kind": "command", "command": "server --api-key 'a b' --port {port}", **changes}
        cells = [{"scenario": "single", "workload": "perf-short", "max_tokens": 4}]
        return parse_profile({"name": "p", "baseline": "a", "engines": [engine], "cells": cells}, "p.toml")

    (engine,) = profile().engines
    assert engine.command == ("server", "--api-key", "a b", "--port", "{port}") and engine.slots is None
    assert "a b" not in str(shown_profile(profile().model_dump(mode="json")))
    with pytest.raises(ProfileError, match="no closing quotation"):
        profile(command="server '{port}")
    with pytest.raises(ProfileError, match="no other kind takes it"):
        profile(kind="remote", url="localhost:1")


def test_the_model_that_a_command_names_is_the_one_whose_hash_is_recorded(tmp_path: Path) -> None:
    from driver.profile.sections import EngineSection
    from driver.run.engine_setup import model_path

    model = model_folder(tmp_path / "model")
    words = f"{shlex.quote(str(STANDIN))} --model={shlex.quote(str(model))} --port {{port}}"
    section = EngineSection(name="a", kind="command", command=words)  # type: ignore[arg-type]
    assert model_path(section, None) == model  # type: ignore[arg-type]
