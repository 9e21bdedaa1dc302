"""The key for the requests, and secrets among their extras, are sent and stand nowhere else."""

import json
from pathlib import Path

import pytest

from tests.load.load import run
from tests.load.scripted_server import ScriptedServer, chat


@pytest.mark.parametrize(
    "key", ["sk-hidden-1\u2026", "sk-hid\u2013den-1", "sk-hidden-1\u200b", "sk-hidden 1", "sk-hidden-1\r"]
)
def test_a_key_that_no_header_can_carry_is_refused_and_written_nowhere(tmp_path: Path, key: str) -> None:
    with ScriptedServer(lambda asked: [chat(["a"])]) as server:
        outcome = run("single", server.url, tmp_path / "out", "--requests", "1", env={"ENGINEBENCH_API_KEY": key})
    assert outcome.code == 2 and not server.asked
    assert "enginebench: ENGINEBENCH_API_KEY: character" in outcome.stderr and "Traceback" not in outcome.stderr
    assert not list((tmp_path / "out").rglob("*")) and "sk-hid" not in outcome.stderr


def test_a_fault_of_the_load_itself_is_told_without_the_request_and_its_key(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: [chat(["a"])]) as server:
        options = ["--requests", "1", "--prompts", "arithmetic"]
        env = {"ENGINEBENCH_API_KEY": "sk-hidden-1"}
        # Half a surrogate pair: such a name cannot be written as JSON.
        outcome = run("single", server.url, tmp_path / "out", *options, "--model", "caf\udce9", env=env)
    assert outcome.code == 1
    assert "surrogates not allowed" in outcome.scenario["incomplete_reason"]
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"sk-hidden" not in written + outcome.stderr.encode()


def test_a_secret_among_the_extras_is_sent_and_written_nowhere(tmp_path: Path) -> None:
    extras = {"api_key": "sk-hidden-1", "more": [{"token": "sk-hidden-2"}], "top_k": 1}
    with ScriptedServer(lambda asked: [chat(["a"])]) as server:
        outcome = run("single", server.url, tmp_path, "--requests", "1", "--request-extras", json.dumps(extras))
    assert "sk-hidden-2" in str(server.asked[0].body)
    assert outcome.scenario["asked"]["request_extras"] == {"api_key": "***", "more": [{"token": "***"}], "top_k": 1}
    assert "sk-hidden" not in (tmp_path / "requests.jsonl").read_text()
