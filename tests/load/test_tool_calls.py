"""Tool calls as five servers stream them: kept whole, and each fragment a token with its time."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from engines.pacing_server.dialects import DIALECTS, NAME
from load.chat.answer import Answer
from load.chat.tool_calls import Fragment, ToolCalls
from records import Record
from records.latency_definitions import itl_ms, timing
from tests.load.load import Outcome, finish, prompts_file
from tests.load.test_answer import record_of, usage
from tests.load.test_sse import answer_of, said
from tests.load.web import pacing

ROME, OSLO = '{"city":"Rome"}', '{"city":"Oslo"}'
BOTH = [{"name": "weather", "arguments": ROME}, {"name": "weather", "arguments": OSLO}]


def calls(*pieces: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {**more, "tool_calls": list(pieces)}, "finish_reason": None}]}


def begin(index: int, call_id: str, **function: str) -> dict[str, Any]:
    return {"index": index, "id": call_id, "type": "function", "function": {"name": "weather", **function}}


def more(index: int, arguments: str, **fields: Any) -> dict[str, Any]:
    return {"index": index, **fields, "function": {"arguments": arguments}}


# One answer with two calls, as each server writes it.
DIALECT_SAMPLES: dict[str, list[dict[str, Any]]] = {
    "OpenAI": [
        calls(begin(0, "call_a", arguments=""), role="assistant", content=None, refusal=None),
        calls(more(0, '{"city":')),
        calls(more(0, '"Rome"}')),
        calls(begin(1, "call_b", arguments="")),
        calls(more(1, OSLO)),
    ],
    "llama.cpp": [
        calls(begin(0, "a", arguments="{")),
        calls(more(0, '"city":"Rome"}')),
        calls(begin(1, "b", arguments="{")),
        calls(more(1, '"city":"Oslo"}')),
    ],
    "vLLM": [
        calls(begin(0, "chatcmpl-tool-1")),
        calls(more(0, '{"city":')),
        calls(more(0, '"Rome"}')),
        calls(begin(1, "chatcmpl-tool-2")),
        calls(more(1, OSLO)),
    ],
    "vLLM and LMDeploy, one index, later ids empty": [
        calls(begin(0, "chatcmpl-tool-1", arguments="")),
        calls(more(0, ROME, id="")),
        calls(begin(0, "chatcmpl-tool-2", arguments="")),
        calls(more(0, OSLO, id="")),
    ],
    "SGLang, one index, the id in every fragment": [
        calls(begin(0, "0", arguments=""), role=None, content=None, reasoning_content=None),
        calls({"index": 0, "id": "0", "function": {"name": None, "arguments": ROME}}, role=None, content=None),
        calls(begin(0, "1", arguments="")),
        calls({"index": 0, "id": "1", "function": {"name": None, "arguments": OSLO}}, role=None, content=None),
    ],
    "Ollama, whole calls with one index": [
        calls(begin(0, "call_x", arguments=ROME), role="assistant", content=""),
        calls(begin(0, "call_y", arguments=OSLO), role="assistant", content=""),
    ],
    "Ollama before it sent an index": [
        calls({"id": "call_x", "type": "function", "function": {"name": "weather", "arguments": ROME}}),
        calls({"id": "call_y", "type": "function", "function": {"name": "weather", "arguments": OSLO}}),
    ],
    "neither index nor id": [
        calls({"function": {"name": "weather", "arguments": ROME}}),
        calls({"function": {"name": "weather", "arguments": OSLO}}),
    ],
    "both in one delta, arguments as objects": [
        calls(
            {"function": {"name": "weather", "arguments": {"city": "Rome"}}},
            {"function": {"name": "weather", "arguments": {"city": "Oslo"}}},
        ),
    ],
    "the name in every fragment": [
        calls(begin(0, "a", arguments='{"city":')),
        calls(begin(0, "a", arguments='"Rome"}')),
        calls(begin(1, "b", arguments='{"city":')),
        calls(begin(1, "b", arguments='"Oslo"}')),
    ],
}


@pytest.mark.parametrize("server", DIALECT_SAMPLES)
def test_two_calls_of_every_dialect_stay_two_calls(server: str) -> None:
    answer = answer_of(*DIALECT_SAMPLES[server], said(finish="tool_calls"))
    assert answer.verdict() is None
    kept = [{**call, "arguments": json.loads(call["arguments"])} for call in record_of(answer).tool_calls]
    assert kept == [{**call, "arguments": json.loads(call["arguments"])} for call in BOTH]


def test_a_name_that_is_repeated_with_an_empty_last_fragment_stays_one_name() -> None:
    taken = ToolCalls()
    for arguments in ("{", "}", ""):
        taken.take(Fragment(0, "weather", arguments, "x"))
    assert taken.whole() == [{"name": "weather", "arguments": "{}"}]


def test_one_object_in_place_of_the_list_is_read_as_text_generation_inference_means_it() -> None:
    first = {"index": 0, "id": "", "type": "function", "function": {"name": "weather", "arguments": '{"city":'}}
    second = {"index": 0, "id": "", "type": "function", "function": {"name": None, "arguments": '"Rome"}'}}
    events = [{"choices": [{"index": 0, "delta": {"tool_calls": one}}]} for one in (first, second)]
    assert answer_of(*events, said(finish="stop")).tool_calls == BOTH[:1]


def test_half_a_surrogate_pair_in_two_fragments_becomes_one_character() -> None:
    answer = answer_of(calls(begin(0, "a", arguments="\ud83d")), calls(more(0, "\ude00")), said(finish="tool_calls"))
    record = record_of(answer)
    assert record.tool_calls == [{"name": "weather", "arguments": "\N{GRINNING FACE}"}]
    assert Record.from_dict(json.loads(record.to_json_line())).tool_calls == record.tool_calls


@pytest.mark.parametrize("value", [[], [None], [3], {}, "x", [{"function": 3}], [{"index": "0", "function": {}}]])
def test_tool_calls_of_another_shape_hold_nothing(value: object) -> None:
    answer: Answer = answer_of({"choices": [{"index": 0, "delta": {"tool_calls": value}}]}, said("hi"), usage(1))
    assert (answer.tool_calls, answer.text) == ([], ["hi"])


# -- times, against a server whose times are known --------------------------------------------------------------------

TOKENS = 12


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Outcome, dict[str, Any]]]:
    """One request in each dialect, through the real load process, and what the server says it did."""
    import requests

    from tests.load.load import start

    found = {}
    for dialect in DIALECTS:
        folder = tmp_path_factory.mktemp(dialect)
        prompts = prompts_file(folder / "prompts.jsonl", ["hi"])
        with pacing("--ttft-ms", "60", "--interval-ms", "20", "--stamps") as url:
            options = ("--prompts", str(prompts), "--max-tokens", str(TOKENS), "--model", f"pacing:{dialect}")
            outcome = finish(start("single", url, folder / "out", *options), folder / "out")
            found[dialect] = outcome, requests.get(f"{url}/requests", timeout=10).json()["requests"][0]
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_fragment_is_a_token_with_the_time_at_which_it_was_sent(
    streamed: dict[str, tuple[Outcome, dict[str, Any]]], dialect: str
) -> None:
    outcome, truth = streamed[dialect]
    (record,) = outcome.measured
    assert outcome.code == 0 and record.ok and record.text == ""
    assert len(record.chunk_ns) == truth["chunks"] == record.completion_tokens == TOKENS
    assert record.first_token_ns == record.first_answer_ns == record.chunk_ns[0] >= truth["first_ns"]
    assert record.last_token_ns == record.chunk_ns[-1] >= truth["last_ns"]
    assert all(call["name"] == NAME for call in record.tool_calls)
    assert len(record.tool_calls) == {"refusal": 0, "tools_ollama": TOKENS}.get(dialect, 1)
    # A stamp of the server is in each fragment: each was seen after its own and, at 20 ms apart, before the next one.
    written = record.refusal + "".join(call["arguments"] for call in record.tool_calls)
    sent = [int(stamp) for stamp in re.findall(r"\d{18}", written)]
    seen = record.chunk_ns[TOKENS - len(sent) :]
    assert len(sent) >= TOKENS - 1
    assert all(stamp <= arrival for stamp, arrival in zip(sent, seen, strict=True))
    assert sorted(arrival - stamp for stamp, arrival in zip(sent, seen, strict=True))[len(sent) // 2] < 20e6


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_latency_of_a_tool_call_is_known(
    streamed: dict[str, tuple[Outcome, dict[str, Any]]], dialect: str
) -> None:
    outcome, truth = streamed[dialect]
    (record,) = outcome.measured
    measured = timing(record)
    gaps = itl_ms(record)
    assert measured.withheld is None and measured.ttft_ms == measured.ttfa_ms
    assert gaps is not None and len(gaps) == TOKENS - 1
    true_tpot = (truth["last_ns"] - truth["first_ns"]) / 1e6 / (TOKENS - 1)
    assert measured.tpot_ms == pytest.approx(true_tpot, rel=0.25)
    assert measured.e2e_ms is not None and measured.ttft_ms is not None
    assert measured.e2e_ms - measured.ttft_ms == pytest.approx(sum(gaps), rel=1e-6)


def test_the_dialects_of_the_pacing_server_are_written_as_the_samples_are() -> None:
    for dialect, (first, further) in DIALECTS.items():
        events = [{"choices": [{"index": 0, "delta": make(" x")}]} for make in (first, further, further)]
        answer = answer_of(*events, said(finish="stop"))
        assert (len(answer.chunk_ns), answer.notes) == (3, []), dialect
