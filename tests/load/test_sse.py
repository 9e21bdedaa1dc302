"""The decoder: bytes in, events and answers out."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from load.chat.answer import Answer
from load.chat.decode import decode
from load.chat.json import whole
from load.chat.sse import Event, SSEDecoder
from records import ErrorKind


def events_of(*pieces: bytes) -> list[tuple[str, bytes]]:
    decoder = SSEDecoder()
    found = [event for piece in pieces for event in decoder.feed(piece)] + decoder.flush()
    return [(event.kind, event.data) for event in found]


def answer_of(*values: Any, end: bytes = b"", cut: bool = False) -> Answer:
    """The answer of a stream of chunks, each arriving 10 ns after the one before."""
    lines = [
        value if isinstance(value, bytes) else b"data: " + json.dumps(value).encode() + b"\n\n" for value in values
    ]
    *_, answer = decode([(10 * n, line) for n, line in enumerate([*lines, end], start=1)], cut=cut)
    return answer


def said(content: Any = None, *, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": content, **more}, "finish_reason": finish}]}


def kind_of(answer: Answer) -> str | None:
    verdict = answer.verdict()
    return verdict and verdict[0].value


DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_lines_may_end_in_any_of_three_ways(line_end: bytes) -> None:
    assert events_of(b"data: a" + line_end * 2 + b"data:b" + line_end * 2) == [("message", b"a"), ("message", b"b")]


def test_comments_ids_retries_and_unknown_fields_are_no_events() -> None:
    stream = b": ping\n\n:\n\nid: 7\nretry: 3\nfoo: bar\nnonsense\n\ndata: a\nid: 8\n\n"
    assert events_of(stream) == [("message", b"a")]


def test_data_of_several_lines_is_joined_by_line_feeds() -> None:
    assert events_of(b"data: a\ndata:\ndata\ndata:  b\n\n") == [("message", b"a\n\n\n b")]


def test_an_event_field_names_the_kind_of_its_event_only() -> None:
    assert events_of(b"event: error\ndata: x\n\ndata: y\n\n") == [("error", b"x"), ("message", b"y")]


def test_a_line_that_begins_with_error_is_an_error_as_old_llama_cpp_wrote_it() -> None:
    assert events_of(b'error: {"code":500}\n\n') == [("error", b'{"code":500}')]


def test_the_last_event_counts_without_its_blank_line() -> None:
    assert events_of(b"data: a") == [("message", b"a")]
    assert events_of(b"data: a\n") == [("message", b"a")]


def test_a_line_separator_inside_json_is_no_end_of_line() -> None:
    text = "a\u2028b\u2029c\x85d\x0be"
    assert events_of(f"data: {text}\n\n".encode()) == [("message", text.encode())]


def test_a_byte_order_mark_at_the_start_is_skipped_and_kept_elsewhere() -> None:
    assert events_of(b"\xef", b"\xbb\xbfdata: a\n\ndata: \xef\xbb\xbf\n\n") == [
        ("message", b"a"),
        ("message", b"\xef\xbb\xbf"),
    ]


FIELDS = st.sampled_from([b"data: ", b"data:", b"event: ", b"id: ", b": ", b"retry: ", b"error: ", b"data", b"x: "])
LINES = st.builds(
    lambda name, value, end: name + value + end,
    FIELDS,
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8).map(str.encode),
    st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n", b"\r\r"]),
)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted(cut % (len(data) + 1) for cut in cuts)
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


@given(st.lists(LINES, max_size=12).map(b"".join), st.lists(st.integers(0, 10_000), max_size=20))
def test_any_split_of_the_bytes_gives_the_same_events(data: bytes, cuts: list[int]) -> None:
    assert events_of(*split(data, cuts)) == events_of(data)
    assert events_of(*(data[i : i + 1] for i in range(len(data)))) == events_of(data)


@given(
    st.lists(st.text(max_size=6), min_size=1, max_size=8), st.booleans(), st.lists(st.integers(0, 10_000), max_size=9)
)
def test_any_split_of_a_stream_gives_the_same_answer(texts: list[str], ascii_only: bool, cuts: list[int]) -> None:
    chunks = [said(text) for text in texts] + [said(finish="stop")]
    lines = [
        b"data: " + json.dumps(c, ensure_ascii=ascii_only).encode("utf-8", "replace") + b"\r\n\r\n" for c in chunks
    ]
    stream = b"".join(lines) + DONE
    *_, at_once = decode([(1, stream)])
    *_, in_pieces = decode([(1, piece) for piece in split(stream, cuts)])
    assert (in_pieces.text, in_pieces.chunk_chars, in_pieces.done) == (at_once.text, at_once.chunk_chars, True)
    assert in_pieces.verdict() == at_once.verdict()


@given(st.binary(max_size=200), st.lists(st.integers(0, 10_000), max_size=5))
def test_no_bytes_make_the_decoder_raise(data: bytes, cuts: list[int]) -> None:
    for piece in (data, b"data: " + data + b"\n\n"):
        *_, answer = decode([(1, part) for part in split(piece, cuts)])
        answer.verdict()


VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, 0, 1, 5, True, "", "a", "\u2028\U0001f600", "stop", [], [{}, {}], [1], {}, {"content": "b"}]
)
PLACES: list[tuple[Any, ...]] = [
    *((), ("id",), ("error",), ("usage",), ("usage", "completion_tokens"), ("timings",), ("system_fingerprint",)),
    *(("extra",), ("choices",), ("choices", 0), ("choices", 1), ("choices", 0, "index"), ("choices", 0, "logprobs")),
    *(("choices", 0, "finish_reason"), ("choices", 0, "logprobs", "content"), ("choices", 0, "delta")),
    *(("choices", 0, "delta", name) for name in ("content", "reasoning", "reasoning_content", "role", "tool_calls")),
]


def changed(content: str, changes: list[tuple[tuple[Any, ...], Any]]) -> Any:
    """A delta of nothing but content, with other values in some of its places."""
    chunk: Any = said(content)
    for place, shared in changes:
        value = copy.deepcopy(shared)
        if not place:
            return value
        at = chunk
        for key in place[:-1]:
            if isinstance(at, dict):
                at = at.setdefault(key, {})
            elif isinstance(at, list) and isinstance(key, int) and key < len(at):
                at = at[key]
        if isinstance(at, dict):
            at[place[-1]] = value
        elif isinstance(at, list):
            at.append(value)
    return chunk


CHUNKS = st.builds(
    changed, st.sampled_from(["a", "b c", ""]), st.lists(st.tuples(st.sampled_from(PLACES), VALUES), max_size=2)
)


@settings(max_examples=400)
@given(st.lists(CHUNKS, max_size=5))
def test_an_event_that_comes_in_one_piece_says_what_it_says_byte_by_byte(chunks: list[Any]) -> None:
    # One whole event a read goes a shorter way through the decoder, but for the first.
    lines = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in (said("x"), *chunks)]
    *_, at_once = decode(list(enumerate(lines)))
    *_, in_crumbs = decode([(n, line[i : i + 1]) for n, line in enumerate(lines) for i in range(len(line))])
    assert at_once == in_crumbs


def test_a_role_chunk_is_not_a_first_token() -> None:
    answer = answer_of(said("", role="assistant"), said(None), said("Hi"), said(finish="stop"))
    assert answer.chunk_ns == [30]
    assert answer.first_answer_ns == 30


def test_an_empty_reasoning_delta_is_not_a_first_token_and_a_full_one_is() -> None:
    answer = answer_of(said(reasoning_content=""), said(reasoning="hm"), said(reasoning_content="so"), said("4"))
    assert answer.chunk_ns == [20, 30, 40]
    assert answer.first_answer_ns == 40
    assert ("".join(answer.reasoning), "".join(answer.text)) == ("hmso", "4")


def test_a_thought_of_white_space_alone_is_the_templates_frame_and_no_token() -> None:
    answer = answer_of(said(reasoning_content="\n"), said(reasoning_content="\n"), said("4"), said("2"))
    assert answer.chunk_ns == [30, 40]
    assert answer.chunk_chars == [1, 1]
    assert "".join(answer.reasoning) == "\n\n"


def test_white_space_that_begins_a_real_thought_is_a_token() -> None:
    answer = answer_of(said(reasoning_content="\n"), said(reasoning_content="so"), said("4"))
    assert answer.chunk_ns == [10, 20, 30]


def test_events_that_arrive_in_one_read_share_its_stamp() -> None:
    both = b"".join(b"data: " + json.dumps(said(text)).encode() + b"\n\n" for text in "ab")
    *_, answer = decode([(5, both)])
    assert answer.chunk_ns == [5, 5]


def test_an_event_over_many_reads_has_the_stamp_of_its_last_byte() -> None:
    line = b"data: " + json.dumps(said("a")).encode() + b"\n\n"
    *_, answer = decode([(n, line[n : n + 1]) for n in range(len(line))])
    assert answer.chunk_ns == [len(line) - 1]


def test_the_usage_chunk_is_no_chunk_of_text_whether_it_has_choices_or_not() -> None:
    told = {"prompt_tokens": 3, "completion_tokens": 2}
    for last in ({"choices": [], "usage": told}, {**said(""), "usage": told}, {"usage": told}):
        answer = answer_of({**said("a"), "usage": None}, said("b", finish="length"), last, DONE)
        assert answer.usage == told
        assert answer.chunk_ns == [10, 20]
        assert answer.verdict() is None


def test_a_stream_without_usage_or_done_is_still_an_answer() -> None:
    answer = answer_of(said("a"), said(finish="stop"))
    assert (answer.usage, answer.done, answer.verdict()) == (None, False, None)


def test_tokens_of_a_chunk_are_taken_from_usage_in_every_chunk_or_from_logprobs() -> None:
    by_usage = answer_of(*({**said(t), "usage": {"completion_tokens": n}} for t, n in (("ab", 4), ("c", 5))))
    assert by_usage.chunk_tokens == [4, 1]
    chunk = said("ab")
    chunk["choices"][0]["logprobs"] = {"content": [{}, {}]}
    assert answer_of(chunk).chunk_tokens == [2]
    assert answer_of(said("ab")).chunk_tokens is None


def test_only_the_first_choice_is_read() -> None:
    second = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "stop"}]}
    answer = answer_of(second, said("yes"), {"choices": [{"delta": {"content": "!"}, "index": None}]})
    assert "".join(answer.text) == "yes!"
    assert answer.finish_reason is None


def test_a_tool_call_is_an_answer_without_text() -> None:
    answer = answer_of(said(tool_calls=[{"index": 0, "function": {"name": "f"}}]), said(finish="tool_calls"))
    assert (answer.verdict(), answer.chunk_ns, answer.chunk_chars) == (None, [10], [1])


def test_unknown_fields_anywhere_are_left_alone() -> None:
    chunk = {
        **said("a", extra=[1]),
        "prompt_progress": {"total": 3},
        "choices": [7, *said("b", finish="stop")["choices"]],
    }
    assert answer_of({"prompt_progress": {}}, chunk, {"object": "x", "choices": None}).verdict() is None


def test_half_a_surrogate_pair_in_each_of_two_deltas_is_one_character() -> None:
    halves = [b'data: {"choices":[{"delta":{"content":"' + half + b'"}}]}\n\n' for half in (b"\\ud83d", b"\\ude00")]
    answer = answer_of(*halves, said(finish="stop"))
    assert whole("".join(answer.text)) == "\U0001f600"
    assert answer.verdict() is None
    assert whole("a\ud83d") == "a\ufffd"


def test_nan_among_the_timings_is_unknown() -> None:
    answer = answer_of(b'data: {"choices":[],"timings":{"predicted_ms":NaN,"n":1}}\n\n')
    assert answer.timings == {"predicted_ms": None, "n": 1}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([said("a"), {"error": {"message": "out of memory", "code": 500}}], "in_band_error"),
        ([said("a"), b'event: error\ndata: {"message": "no"}\n\n'], "in_band_error"),
        ([said("a"), b"error: no slot\n\n"], "in_band_error"),
        ([said("a"), {"error": "no"}, said("b", finish="stop"), DONE], "in_band_error"),
        ([said("a"), b"data: {nonsense\n\n", said(finish="stop")], "bad_json"),
        ([b"data: [1]\n\n"], "bad_json"),
        ([b'data: {"choices": "\xff\xfe"}\n\n'], "encoding"),
        ([said("a"), DONE], "no_finish_reason"),
        ([said("a", finish="eos"), DONE], "no_finish_reason"),
        ([], "no_finish_reason"),
        ([said("", role="assistant"), said(finish="stop"), DONE], "empty"),
        ([said("a"), said(finish="stop"), {"choices": [], "usage": {"completion_tokens": 0}}], "usage_contradicts"),
        ([said("a")] * 20 + [said(finish="stop"), {"usage": {"completion_tokens": 2}}], "usage_contradicts"),
        ([said("a"), said(finish="stop"), {"usage": {"completion_tokens": 4096}}], "usage_contradicts"),
        ([said("a"), said(finish="length"), {"usage": {"completion_tokens": 1}}, DONE], None),
    ],
)
def test_what_is_no_answer_is_an_error_of_one_kind(values: list[Any], kind: str | None) -> None:
    assert kind_of(answer_of(*values)) == kind


def test_half_an_event_is_bad_json_only_where_the_engine_ended_the_body_itself() -> None:
    half = b'data: {"choi'
    assert kind_of(answer_of(said("a"), end=half)) == ErrorKind.BAD_JSON
    assert kind_of(answer_of(said("a"), end=half, cut=True)) == ErrorKind.ABORTED
    assert kind_of(answer_of({"error": "no"}, end=half, cut=True)) == ErrorKind.IN_BAND_ERROR


def test_nothing_is_taken_after_done() -> None:
    answer = answer_of(said("a", finish="stop"), DONE, said("b"), b"data: nonsense\n\n")
    assert ("".join(answer.text), answer.verdict()) == ("a", None)


def test_an_event_is_a_plain_value() -> None:
    assert Event("message", b"a") == SSEDecoder().feed(b"data: a\n\n")[0]
