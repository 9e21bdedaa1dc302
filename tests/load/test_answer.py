"""What counts as generated text, which usage is believed, and which errors hide in a stream."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from load.chat.answer import Answer, is_blank
from load.chat.decode import decode
from load.http.framing import parse_head
from load.http.response import Reply
from load.record_builder import _fill, retry_after_s
from records import Record, read_records
from records.latency_definitions import itl_ms, timing
from tests.load.test_sse import DONE, answer_of, kind_of, said
from tests.records.test_records import record
from tests.scoring.hand import capture_of


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def usage(tokens: Any, **more: Any) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": tokens, **more}}


def call(arguments: str, index: int = 0, **more: Any) -> dict[str, Any]:
    return delta(tool_calls=[{"index": index, "function": {"arguments": arguments, **more}}])


def record_of(answer: Answer) -> Record:
    made = record(sent_ns=0, end_ns=10**12)
    _fill(made, answer)
    return made


def test_deltas_of_tool_calls_are_generated_tokens_and_are_kept() -> None:
    answer = answer_of(
        call("", name="weather"),
        call('{"city":'),
        call('"Rome"}'),
        call("{}", 1, name="time"),
        said(finish="tool_calls"),
    )
    assert answer.verdict() is None
    assert (answer.chunk_ns, answer.chunk_chars) == ([10, 20, 30, 40], [7, 8, 7, 6])
    kept = record_of(answer)
    assert kept.tool_calls == [{"name": "weather", "arguments": '{"city":"Rome"}'}, {"name": "time", "arguments": "{}"}]
    assert (kept.first_token_ns, kept.first_answer_ns, kept.last_token_ns) == (10, 10, 40)


def test_a_short_text_before_a_long_tool_call_does_not_contradict_usage() -> None:
    chunks = [said("hi "), *(call(f"a{n}") for n in range(100)), said(finish="tool_calls"), usage(101)]
    answer = answer_of(*chunks)
    assert answer.verdict() is None
    assert record_of(answer).last_token_ns == 1010


@pytest.mark.parametrize("field", ["refusal", "function_call"])
def test_refusals_and_legacy_function_calls_are_generated_tokens(field: str) -> None:
    values = [delta(**{field: text if field == "refusal" else {"arguments": text}}) for text in ("I ", "can", "not")]
    answer = answer_of(*values, said(finish="stop"), usage(3))
    assert (answer.verdict(), answer.chunk_ns, answer.first_answer_ns) == (None, [10, 20, 30], 10)
    kept = record_of(answer)
    assert kept.refusal == ("I cannot" if field == "refusal" else "")
    assert kept.tool_calls == ([] if field == "refusal" else [{"name": "", "arguments": "I cannot"}])


@pytest.mark.parametrize(
    "thought",
    [
        {"thinking": "so"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "so"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "so"}]}]},
        {"reasoning": "so", "reasoning_details": [{"text": "so"}]},
    ],
)
def test_thoughts_are_read_under_every_name_and_once(thought: dict[str, Any]) -> None:
    answer = answer_of(delta(**thought), delta(content=[{"type": "text", "text": "4"}]), said(finish="stop"))
    assert ("".join(answer.reasoning), "".join(answer.text)) == ("so", "4")
    assert (answer.chunk_ns, answer.first_token_ns, answer.first_answer_ns) == ([10, 20], 10, 20)


def test_text_in_an_unknown_field_is_noted() -> None:
    answer = answer_of(delta(audio={"transcript": 1}, musing="so"), said("4"))
    assert answer.notes == ["delta.musing holds text of an unknown kind, which is not counted"]


@pytest.mark.parametrize("blank", [" ", "\n\n", "\u200b", "\ufeff \u2060"])
def test_white_space_alone_is_no_first_token_of_an_answer(blank: str) -> None:
    answer = answer_of(said(blank), said("4"), said("2"), said(finish="stop"))
    assert (answer.first_token_ns, answer.first_answer_ns, answer.chunk_ns) == (20, 20, [10, 20, 30])
    assert is_blank(blank)
    only = answer_of(said(blank), said(finish="stop"))
    assert (only.first_token_ns, only.verdict()) == (10, None)


ZEROS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def test_usage_of_zeros_in_every_event_is_unknown() -> None:
    events = [{**said(text), "usage": ZEROS} for text in "abc"]
    real = answer_of(*events, {**said(finish="stop"), "usage": {"prompt_tokens": 10, "completion_tokens": 3}})
    assert (real.chunk_tokens, real.completion_tokens, real.verdict()) == (None, 3, None)
    never = answer_of(*events, {**said(finish="stop"), "usage": ZEROS})
    assert (never.completion_tokens, never.verdict()) == (None, None)
    assert record_of(never).prompt_tokens is None


@pytest.mark.parametrize("later", [{}, ZEROS, {"completion_tokens": None}])
def test_usage_that_says_nothing_does_not_erase_real_usage(later: dict[str, Any]) -> None:
    answer = answer_of(said("abcdefgh", finish="stop"), usage(8), {"choices": [], "usage": later}, DONE)
    assert (answer.completion_tokens, answer.verdict()) == (8, None)


def test_a_count_may_be_written_as_a_float() -> None:
    assert answer_of(said("a"), usage(8.0)).completion_tokens == 8
    assert answer_of(said("a"), usage(8.5)).completion_tokens is None
    assert answer_of(said("a"), usage(True)).completion_tokens is None


def test_hidden_reasoning_tokens_are_recorded_and_contradict_nothing() -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 992}}
    answer = answer_of(*(said(text) for text in "abcdefgh"), said(finish="stop"), usage(1000, **details))
    assert answer.verdict() is None
    assert (record_of(answer).completion_tokens, record_of(answer).reasoning_tokens) == (1000, 992)


def test_every_choice_counts_in_time_and_the_first_in_text() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]}
    answer = answer_of(said("yes"), other, said(finish="stop"), other, usage(2))
    kept = record_of(answer)
    assert (kept.choices, kept.text, kept.chunk_ns, kept.finish_reason) == (2, "yes", [10, 20, 40], "stop")
    assert timing(kept).tpot_ms is None


def test_llama_cpps_timings_in_every_event_count_its_tokens() -> None:
    answer = answer_of(*({**said(text), "timings": {"predicted_n": n}} for text, n in (("a", 1), ("bcd", 4))))
    assert answer.chunk_tokens == [1, 3]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"message": "out of memory"}, "out of memory"),
        ([{"message": "out of"}, {"message": "memory"}], "out of; memory"),
        ("no", "no"),
    ],
)
def test_an_error_inside_a_choice_is_an_in_band_error(error: Any, message: str) -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop", "error": error}]}
    verdict = answer_of(said("a"), chunk, DONE).verdict()
    assert verdict is not None
    assert (verdict[0].value, verdict[1]) == ("in_band_error", message)


@pytest.mark.parametrize("empty", ["", {}, None, []])
def test_an_empty_error_is_none(empty: Any) -> None:
    assert answer_of({**said("a", finish="stop"), "error": empty}, DONE).verdict() is None


@pytest.mark.parametrize(
    ("body", "content_type", "kind", "message"),
    [
        (
            b'{"error":{"message":"maximum context length 5"}}',
            "application/json",
            "in_band_error",
            "maximum context",
        ),
        (b'{"detail":"Not Found"}', "application/json", "in_band_error", "Not Found"),
        (b"<html>Welcome to nginx</html>", "text/html", "no_finish_reason", "text/html: <html>Welcome"),
        (b": ping\n\n", "text/event-stream", "no_finish_reason", "finish_reason None"),
    ],
)
def test_a_body_that_is_no_stream_keeps_what_it_says(body: bytes, content_type: str, kind: str, message: str) -> None:
    *_, answer = decode([(1, body)], content_type=content_type)
    verdict = answer.verdict()
    assert verdict is not None
    assert verdict[0].value == kind
    assert message in verdict[1]


def test_an_empty_finish_reason_does_not_take_the_place_of_a_real_one() -> None:
    assert answer_of(said("a", finish="stop"), said(finish=""), DONE).verdict() is None


def test_data_with_nothing_in_it_is_ignored() -> None:
    assert answer_of(said("a"), b"data:\n\n", b"data: \n\n", said(finish="stop"), DONE).verdict() is None


def test_what_a_record_cannot_hold_is_dropped_with_a_note_and_the_file_stays_readable(tmp_path: Path) -> None:
    huge = "9" * 401
    answer = answer_of(
        {**said("a"), "usage": {"completion_tokens": 5_000_000_000}},
        f'data: {{"choices":[],"timings":{{"predicted_n":{huge},"predicted_ms":1e999,"prompt_n":7}}}}\n\n'.encode(),
        f'data: {{"choices":[],"timings":{{"predicted_n":{"9" * 5000},"prompt_n":7}}}}\n\n'.encode(),
        said(finish="stop"),
        DONE,
    )
    kept = record_of(answer)
    assert (kept.completion_tokens, kept.chunk_tokens) == (None, None)
    assert kept.server_timings == {"predicted_n": None, "prompt_n": 7}
    assert any("5000000000" in note for note in kept.notes)
    assert any("timings.predicted_n was dropped" in note for note in kept.notes)
    path = tmp_path / "requests.jsonl"
    path.write_text(kept.to_json_line())
    assert list(read_records(path)) == [json_round(kept)]
    assert len(capture_of(tmp_path, [kept]).requests) == 1


def json_round(kept: Record) -> Record:
    return Record.from_dict(json.loads(kept.to_json_line()))


def test_stamps_of_a_burst_are_no_stream() -> None:
    answer = answer_of(*(said(text) for text in "abcdefgh"), said(finish="stop"), usage(8), DONE)
    assert kind_of(answer) is None
    assert timing(record_of(answer)).tpot_ms is None


def reply(head: bytes) -> Reply:
    made = Reply(0)
    parsed = parse_head(head)
    assert parsed is not None
    made.head = parsed[0]
    return made


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        (b"7", 7.0),
        (b"Tue, 01 Dec 2026 00:00:05 GMT", 5.0),
        (b"Mon, 30 Nov 2026 00:00:00 GMT", 0.0),
        (b"99999999999", 60.0),
        (b"nan", 1.0),
        (b"inf", 1.0),
        (b"-1", 1.0),
        (b"1.5", 1.0),
        (b"soon", 1.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: bytes, wait_s: float) -> None:
    now = datetime(2026, 12, 1, tzinfo=UTC)
    assert retry_after_s(reply(b"HTTP/1.1 429 X\r\nRetry-After: " + value + b"\r\n\r\n"), now) == wait_s
    assert retry_after_s(reply(b"HTTP/1.1 500 X\r\nRetry-After: " + value + b"\r\n\r\n"), now) is None


def test_text_of_the_completions_endpoint_is_an_answer_like_any_other() -> None:
    def text(piece: str, finish: str | None = None, **more: Any) -> dict[str, Any]:
        return {"choices": [{"index": 0, "text": piece, "finish_reason": finish, **more}]}

    answer = answer_of(text("Be"), text("cause"), text("", "stop"), usage(2))
    assert ("".join(answer.text), answer.chunk_ns, answer.verdict()) == ("Because", [10, 20], None)
    assert (answer.finish_reason, answer.completion_tokens) == ("stop", 2)
    counted = answer_of(text("Be so", logprobs={"tokens": ["Be", " so"]}), text("", "stop"), usage(2))
    assert counted.chunk_tokens == [2]


def test_usage_in_every_event_gives_the_time_between_tokens_of_bundled_chunks() -> None:
    """As vLLM sends it with `continuous_usage_stats`: four tokens per event, 40 ms from event to event."""
    answer = Answer()
    for number in range(1, 6):
        event = said("a b c d") | {"usage": {"prompt_tokens": 9, "completion_tokens": 4 * number}}
        answer.take_data(json.dumps(event).encode(), number * 40_000_000)
    answer.take_data(json.dumps(said(finish="length")).encode(), 201_000_000)
    answer.finish()
    record = record_of(answer)
    assert record.chunk_tokens == [4] * 5
    assert itl_ms(record) == [10.0] * 16
    assert timing(record).tpot_ms == 10.0
