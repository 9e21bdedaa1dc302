"""The probe tells what an engine does, against the stand-in and a real llama.cpp."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from engines import Engine, EngineConfig, create, probe, running
from records.thinking import holds_thought
from tests.engines.helpers import ask, standin, wheel
from tests.load.scripted_server import Asked, ScriptedServer, chat


def probed(engine: Engine, tmp_path: Path, **sampling: Any) -> dict[str, Any]:
    with running(engine, tmp_path / "server.log", ready_timeout_s=60):
        return probe(engine, sampling={"temperature": 0.0, **sampling})


def test_an_engine_that_ignores_a_fixed_length_is_found_out(tmp_path: Path) -> None:
    # The stand-in, as xserv, knows no ignore_eos.
    result = probed(standin(tmp_path), tmp_path)
    assert result["fixed_length"] is False
    assert result["thinking"] is False
    assert result["sampling_accepted"] is True
    assert result["cache_hit"] is None
    assert all(isinstance(tokens, int) for tokens in result["prompt_tokens"].values())


def test_what_an_engine_without_usage_cannot_tell_is_none(tmp_path: Path) -> None:
    result = probed(standin(tmp_path, env={"STANDIN_NO_USAGE": "1"}), tmp_path)
    assert set(result["prompt_tokens"].values()) == {None}
    assert result["fixed_length"] is False


def test_sampling_that_is_refused_is_noted(tmp_path: Path) -> None:
    result = probed(standin(tmp_path), tmp_path, temperature=-1.0)
    assert result["sampling_accepted"] is False
    assert any("400" in note for note in result["notes"])


@pytest.mark.parametrize(
    ("free", "fixed", "obeyed"),
    [
        (("stop", 8), ("length", 24), True),
        (("stop", 8), ("stop", 8), False),
        (("stop", 8), ("length", 20), False),
        (("length", 24), ("length", 24), None),
        (("stop", 8), ("length", None), True),
        (("stop", 8), (None, None), None),
    ],
)
def test_a_fixed_length_is_shown_only_by_an_answer_that_would_have_been_shorter(
    free: tuple[str, int], fixed: tuple[str | None, int | None], obeyed: bool | None
) -> None:
    from engines.probe import ProbeAnswer, _fixed

    def answer(reason: str | None, tokens: int | None) -> ProbeAnswer:
        return ProbeAnswer(200, "x", "", reason, 5, tokens)

    assert _fixed(answer(*fixed), answer(*free), []) is obeyed


@pytest.mark.parametrize(
    ("text", "reasoning", "thinks"),
    [
        ("<think>Hm.</think>4", "", True),
        ("<think>\n\n</think>\n4", "", False),
        ("Hm.</think>4", "", True),
        ("4", "Hm.", True),
        ("4", "", False),
    ],
)
def test_only_a_thought_counts_as_thinking(text: str, reasoning: str, thinks: bool) -> None:
    assert holds_thought(text, reasoning) is thinks


@pytest.mark.parametrize(
    ("events", "text", "reasoning"),
    [
        ([{"choices": [{"delta": {"content": [{"type": "text", "text": "4"}]}, "finish_reason": "stop"}]}], "4", ""),
        ([{"choices": [None, {"delta": {"content": "4", "thinking": "Hm"}, "finish_reason": "stop"}]}], "4", "Hm"),
        ([{"choices": [{"delta": {"reasoning_details": [{"text": "Hm"}]}, "finish_reason": "stop"}]}], "", "Hm"),
        ([{"choices": "none", "usage": [], "timings": 5}], "", ""),
    ],
)
def test_the_probe_reads_a_stream_by_the_rules_of_the_load(events: list[Any], text: str, reasoning: str) -> None:
    from engines.probe import _read

    answer = _read([(0, f"data: {json.dumps(event)}\n\n".encode()) for event in events], "text/event-stream", [])
    assert (answer.text, answer.reasoning, answer.completion_tokens) == (text, reasoning, None)


def test_what_a_server_says_in_place_of_a_stream_is_noted() -> None:
    from engines.probe import _read

    notes: list[str] = []
    _read([(0, b'{"error":{"message":"Model not found"}}')], "application/json", notes)
    assert notes == ["error in the stream: in_band_error: Model not found"]


def test_a_server_that_is_gone_is_unknown_not_an_error() -> None:
    result = probe(create(EngineConfig(name="r", kind="remote", url="http://127.0.0.1:9")), sampling={})
    assert result["thinking"] is None and result["sampling_accepted"] is None and result["fixed_length"] is None
    assert result["notes"]


def test_llama_cpp_from_the_wheel_reads_back_and_probes_as_asked(tmp_path: Path) -> None:
    engine = wheel(slots=2, max_seq_len=256)
    with running(engine, tmp_path / "server.log", ready_timeout_s=60) as alive:
        told = engine.read_back()
        result = probe(engine, sampling={"temperature": 0.0, "top_k": 1})
    assert (told.context_per_slot, told.slots) == (256, 2)
    assert told.build is not None and told.build.startswith("b") and told.build[1].isdigit()
    assert told.model == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert told.chat_template_sha256 is not None
    assert set(result["prompt_tokens"].values()) == {36, 42}
    assert (result["thinking"], result["fixed_length"], result["sampling_accepted"]) == (False, True, True)
    assert result["cache_hit"] is False and result["notes"] == []
    assert alive.processes_left == 0


def test_a_prompt_cache_that_answers_is_found_out(tmp_path: Path) -> None:
    engine = wheel(slots=1, max_seq_len=256, cache=True)
    assert probed(engine, tmp_path)["cache_hit"] is True


def test_a_full_stand_in_refuses_as_xserv_does(tmp_path: Path) -> None:
    engine = standin(tmp_path, slots=1, env={"STANDIN_TOKEN_MS": "40"})
    with running(engine, tmp_path / "server.log", ready_timeout_s=20):
        first = threading.Thread(target=ask, args=(engine,), kwargs={"max_tokens": 64})
        first.start()
        time.sleep(0.3)
        second = ask(engine)
        first.join()
    assert second.status_code == 503 and "engine is busy" in second.text
    assert engine.log_findings(tmp_path / "server.log")["busy_refusals"] >= 1


def test_the_stand_ins_greedy_answers_differ_only_when_told(tmp_path: Path) -> None:
    for env, same in (({}, True), ({"STANDIN_RANDOM": "1"}, False)):
        engine = standin(tmp_path, env=env)
        with running(engine, tmp_path / "server.log", ready_timeout_s=20):
            texts = {ask(engine, max_tokens=64).json()["choices"][0]["message"]["content"] for _ in range(3)}
        assert (len(texts) == 1) is same


def test_a_small_pool_of_blocks_shows_swap_events_in_the_findings(tmp_path: Path) -> None:
    engine = standin(tmp_path, options={"max_kv_blocks": 8})
    with running(engine, tmp_path / "server.log", ready_timeout_s=20):
        ask(engine)
    assert engine.log_findings(tmp_path / "server.log")["swap_events"] == 2


@pytest.mark.parametrize("stream", [True, False])
def test_a_stalled_stream_of_the_stand_in_ends_cleanly_without_a_finish_reason(tmp_path: Path, stream: bool) -> None:
    engine = standin(tmp_path, env={"STANDIN_STALL": "3"})
    with running(engine, tmp_path / "server.log", ready_timeout_s=20):
        answer = ask(engine, stream=stream, max_tokens=64)
    assert answer.status_code == 200
    assert '"finish_reason": "' not in answer.text and '"finish_reason": null' in answer.text


def test_a_context_split_among_slots_is_read_back_and_refused(tmp_path: Path) -> None:
    from driver.run.mode_check import disproved

    engine = wheel(slots=4, max_seq_len=1024, args=("-c", "1024"))
    with running(engine, tmp_path / "server.log", ready_timeout_s=60):
        told = engine.read_back().to_dict()
    assert told["context_per_slot"] == 256
    asked = {"max_seq_len": 1024, "slots": 4, "thinking": False, "cache": False}
    (why,) = disproved({"asked": asked, "readback": told}, fixed_length=False)
    assert why.startswith("each slot has 256 tokens of context; the profile asks for 1,024 (set max_seq_len = 256, or")


def test_an_option_that_the_wheels_server_does_not_know_is_explained(tmp_path: Path) -> None:
    from engines import EngineError

    engine = wheel(args=("--no-such-option",))
    with (
        pytest.raises(EngineError, match=r"refuses its arguments.*--no-such-option"),
        running(engine, tmp_path / "server.log", ready_timeout_s=60),
    ):
        pass


NOT_THERE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def answers(asked: Asked, tokens: int) -> bytes:
    return NOT_THERE if asked.head.startswith("GET") else chat(["x"] * tokens, finish="length")


def test_a_server_that_wants_max_completion_tokens_is_understood() -> None:
    def script(asked: Asked) -> list[bytes]:
        if "max_tokens" in asked.body:
            message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            body = json.dumps({"error": {"message": message}}).encode()
            return [b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)]
        return [answers(asked, asked.body.get("max_completion_tokens", 0))]

    with ScriptedServer(script) as server:
        engine = create(EngineConfig("e", "remote", url=server.url))
        learned = probe(engine, sampling={})
        told = probe(engine, sampling={}, max_tokens_field="max_tokens")
    assert learned["max_tokens_field"] == "max_completion_tokens"
    assert learned["sampling_accepted"] is True
    assert any("wants max_completion_tokens" in note for note in learned["notes"])
    # What the profile says is not second-guessed.
    assert (told["max_tokens_field"], told["sampling_accepted"]) == ("max_tokens", False)


def test_the_completions_endpoint_is_probed_with_a_prompt_and_the_headers_of_the_profile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_GATEWAY_KEY", "zx81-spectrum-key")
    with ScriptedServer(lambda asked: [answers(asked, 24)]) as server:
        headers = {"X-Api-Key": "ENV:MY_GATEWAY_KEY"}
        engine = create(EngineConfig("e", "remote", url=server.url, headers=headers))
        result = probe(engine, sampling={}, endpoint="completions")
    posts = [asked for asked in server.asked if asked.head.startswith("POST")]
    assert result["endpoint"] == "completions"
    assert all(asked.head.startswith("POST /v1/completions ") for asked in posts)
    assert posts[0].body["prompt"].startswith("What is the capital of France?")
    assert all("X-Api-Key: zx81-spectrum-key" in asked.head for asked in server.asked)
    assert "chat_template_kwargs" not in posts[0].body
