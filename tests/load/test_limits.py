"""Where the reading of streams draws its lines: lengths, depths, sizes and counts, each held on both sides."""

from __future__ import annotations

import json
from typing import Any

import pytest

from load.chat.answer import Answer
from load.chat.decode import decode
from load.chat.delta import Delta, read_delta, text_of
from load.chat.json import body_error, error_message, error_text, loads, unreadable
from load.chat.sse import SSEDecoder
from load.chat.usage import notes_on, storable
from load.http.framing import Body, FramingError, Head, parse_head
from load.http.response import Reply
from records import ErrorKind
from tests.load.test_response import CHUNKED, chunk, reply

LONG = "0123456789" * 300


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def content(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, **more}]}


def last(pieces: list[tuple[int, bytes]], **options: Any) -> Answer:
    return list(decode(pieces, **options))[-1]


# Messages are cut, since servers send whole pages as errors


def test_the_message_of_an_error_has_at_most_500_characters() -> None:
    for error in (LONG, {"message": LONG}, [LONG], [LONG[:300], LONG[:300]], {"error": [LONG]}, {"a": LONG}):
        assert len(error_text(error)) == 500
    assert error_text(LONG) == LONG[:500]
    assert error_message(b"<html>" + LONG.encode()) == "<html>" + LONG[:494]


def test_ten_errors_of_a_list_are_joined() -> None:
    assert error_text([str(n) for n in range(12)]) == "0; 1; 2; 3; 4; 5; 6; 7; 8; 9"


def test_what_was_no_answer_is_quoted_up_to_its_limit() -> None:
    kind, message = body_error(LONG.encode(), "text/html") or (None, "")
    assert (kind, message) == (ErrorKind.NO_FINISH_REASON, f"no event stream but text/html: {LONG[:400]}")
    assert body_error(b"  \r\n ", "text/html") is None
    assert body_error(LONG.encode(), "text/event-stream; charset=utf-8") is None
    bad = b"\xff" + LONG.encode()
    assert unreadable(bad, ValueError("x")) == (ErrorKind.ENCODING, f"not UTF-8: {bad[:100]!r}")
    assert unreadable(LONG.encode(), ValueError("x")) == (ErrorKind.BAD_JSON, f"x: {LONG[:200].encode()!r}")


def test_a_number_of_a_thousand_digits_is_infinite_and_one_digit_less_is_a_number() -> None:
    assert loads(b"[%s, NaN]" % (b"9" * 999)) == [int("9" * 999), None]
    assert loads(b"[%s, NaN]" % (b"9" * 1000)) == [float("inf"), None]


def test_names_and_reasons_from_a_server_are_cut() -> None:
    answer = last([(1, event(content("a", finish_reason=LONG)))])
    assert answer.finish_reason == LONG[:100]
    answer = last([(1, event({"choices": [{"delta": {LONG: "text"}}]}))])
    assert answer.notes == [f"delta.{LONG[:40]} holds text of an unknown kind, which is not counted"]
    assert notes_on({"prompt_tokens": LONG}) == [f"usage.prompt_tokens is no token count and was dropped: {LONG[:40]}"]


def test_names_and_texts_that_a_record_keeps_are_cut() -> None:
    notes: list[str] = []
    kept = storable({LONG: LONG, "x" * 50: 2**64}, "timings", notes)
    assert kept == {LONG[:100]: LONG[:2000], "x" * 50: None}
    assert notes == [f"timings.{'x' * 40} was dropped: a number of more than 64 bits"]


# Deltas


def nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(("depth", "text"), [(8, "deep"), (9, "")])
def test_text_is_looked_for_eight_levels_deep(depth: int, text: str) -> None:
    assert text_of(nested(depth)) == text
    assert read_delta({"content": [{"type": "text", "text": nested(depth - 1)}]}).content == text


def test_each_kind_of_text_counts_its_characters() -> None:
    delta = read_delta({
        "content": "ab", "reasoning": "cde", "refusal": "f",
        "tool_calls": [{"function": {"name": "gh", "arguments": "ijkl"}}],
    })  # fmt: skip
    assert delta.characters == 12
    assert Delta(refusal="abc").characters == 3


@pytest.mark.parametrize("logprobs", [{"content": "abc"}, {"content": []}, {"content": None}, {}, "abc", ["a"]])
def test_logprobs_that_are_no_list_of_tokens_count_none(logprobs: Any) -> None:
    assert last([(1, event(content("abc", logprobs=logprobs)))]).chunk_tokens is None


@pytest.mark.parametrize(
    ("chunks", "size", "tokens", "contradicts"),
    [
        (6, 20, 1, False),
        (7, 20, 1, True),  # more than two chunks a token, and four
        (1, 1, 64, False),
        (1, 5, 65, False),
        (1, 4, 64, False),
        (1, 4, 65, True),  # more than sixteen tokens a character
        (1, 1, 0, True),
    ],
)
def test_usage_contradicts_the_text_beyond_its_limits(
    chunks: int, size: int, tokens: int, *, contradicts: bool
) -> None:
    pieces = [(n, event(content("x" * size))) for n in range(chunks)]
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"completion_tokens": tokens}}
    verdict = last([*pieces, (99, event(end))]).verdict()
    assert (verdict is not None and verdict[0] is ErrorKind.USAGE_CONTRADICTS) is contradicts


# Decoding in slices


def pauses(pieces: list[tuple[int, bytes]]) -> int:
    """How often the decoder let the caller in between."""
    return len(list(decode(pieces))) - 1


@pytest.mark.parametrize(("pieces", "expected"), [(15, 0), (16, 1), (31, 1), (32, 2)])
def test_the_decoder_pauses_after_sixteen_pieces(pieces: int, expected: int) -> None:
    assert pauses([(n, event(content("a"))) for n in range(pieces)]) == expected


@pytest.mark.parametrize(("size", "expected"), [(4096, 0), (4097, 1)])
def test_the_decoder_pauses_after_a_piece_of_more_than_4096_bytes(size: int, expected: int) -> None:
    assert pauses([(1, b":" * (size - 1) + b"\n")]) == expected


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True)])
def test_an_event_may_have_sixteen_mebibytes(more: int, *, refused: bool) -> None:
    # Without its end, the line is held whole.
    answer = last([(1, b":" + b"x" * (16 * 2**20 - 1 + more))], content_type="text/plain")
    error = (ErrorKind.BAD_FRAME, "an event of more than 16777216 bytes")
    assert (answer.error == error) is refused


def test_text_or_an_error_that_came_is_not_explained_by_the_kind_of_body() -> None:
    assert last([(1, event(content("a")))], content_type="text/plain").error is None
    assert (last([(1, b"hello")], content_type="text/plain").error or ("",))[0] is ErrorKind.NO_FINISH_REASON
    error = last([(1, b"data: {\n\n")], content_type="text/plain").error
    assert error is not None
    assert error[0] is ErrorKind.BAD_JSON


def test_bytes_of_an_event_that_is_not_complete_are_counted_with_its_lines() -> None:
    decoder = SSEDecoder()
    decoder.feed(b"data: abc\ndata: de\ndat")
    assert decoder.pending_bytes == 3 + 2 + 3


# Framing


def test_a_head_may_have_64_kibibytes() -> None:
    start = b"HTTP/1.1 200 OK\r\nx: "
    assert parse_head(start + b"a" * (65536 - len(start))) is None
    with pytest.raises(FramingError):
        parse_head(start + b"a" * (65537 - len(start)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\r\n\r\n", "not an HTTP/1.1 response: ''"),
        (LONG.encode(), f"not an HTTP/1.1 response: {LONG[:80].encode()!r}"),
        (LONG.encode() + b"\r\n\r\n", f"not an HTTP/1.1 response: {LONG[:80]!r}"),
        (b"HTTP/1.1 200 OK\r\n" + LONG.encode() + b"\r\n\r\n", f"not a header: {LONG[:80]!r}"),
    ],
)
def test_what_is_no_head_is_quoted_up_to_80_characters(data: bytes, message: str) -> None:
    with pytest.raises(FramingError) as error:
        parse_head(data)
    assert str(error.value) == message


@pytest.mark.parametrize(("status", "final"), [(100, False), (101, True), (102, False), (199, False), (200, True)])
def test_interim_responses_but_a_change_of_protocol_are_skipped(status: int, *, final: bool) -> None:
    found = parse_head(b"HTTP/1.1 %d X\r\n\r\n" % status)
    assert (found is not None) is final


def test_five_bytes_show_that_it_is_no_http() -> None:
    assert parse_head(b"SSH-") is None
    with pytest.raises(FramingError):
        parse_head(b"SSH-2")


def chunked() -> Body:
    return Body(Head(200, {"transfer-encoding": "chunked"}))


def test_a_chunk_inside_a_chunk_is_its_content() -> None:
    inner = chunk(b"abc")
    whole = chunk(inner + inner)
    body, out = chunked(), list[tuple[int, bytes]]()
    cut = whole.index(inner)
    reads = [inner, whole[:cut], inner, inner, b"\r\n", inner]
    body.feed_all(enumerate(reads), out)
    assert out == [(0, b"abc"), (2, inner), (3, inner), (5, b"abc")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"2\r\nab" + b"0123456789" * 3, f"a chunk that does not end where it should: {b'01234567890123456789'!r}"),
        (b"x" * 1025, f"not a chunk size: {b'x' * 40!r}"),
        (b"x" * 50 + b"\r\n", f"not a chunk size: {b'x' * 40!r}"),
        (b"1234567890123456\r\n", f"not a chunk size: {b'1234567890123456'!r}"),
        (b"\r\n", f"not a chunk size: {b''!r}"),
        (b"0\r\n" + b"x" * 65537, "trailers of more than 65536 bytes"),
    ],
)
def test_what_is_no_chunk_is_quoted_up_to_its_limit(data: bytes, message: str) -> None:
    with pytest.raises(FramingError) as error:
        chunked().feed(data)
    assert str(error.value) == message


def test_a_line_of_a_chunk_size_may_have_1024_bytes_and_its_number_15_digits() -> None:
    assert chunked().feed(b"3;" + b"x" * 1022) == b""
    assert chunked().feed(b"000000000000003\r\nabc\r\n") == b"abc"
    assert chunked().feed(b"0\r\n" + b"x" * 65534) == b""


# Replies


def test_a_reply_begins_with_nothing_known() -> None:
    made = Reply(7)
    assert (made.sent_ns, made.end_ns, made.last_ns, made.reads, made.kernel_stamps) == (7, 0, 0, 0, False)


@pytest.mark.parametrize(
    ("reads", "done"),
    [
        ([b"x\n", *(bytes([byte]) for byte in b"data:   [DONE]\n\n")], True),
        # The character before it lies 64 bytes back: what looks like an event is the end of another line.
        ([b"x", b"data:" + b" " * 52 + b"[DONE]"], False),
        ([b"\n", b"data:" + b" " * 52 + b"[DONE]"], True),
        # One more space, and the 64 bytes that are looked at begin with the event.
        ([b"x", b"data:" + b" " * 53 + b"[DONE]"], True),
        ([b"data: nothing like it"], False),
        ([b"data: [DONE]" + b" " * 3 + b"\n" * 12], True),
    ],
)
def test_done_is_looked_for_in_the_last_sixteen_reads_and_64_bytes(reads: list[bytes], *, done: bool) -> None:
    made = reply(CHUNKED, *map(chunk, reads))
    made.unframe()
    assert made.says_done is done


def test_a_part_whose_type_is_no_text_is_read_like_any_other() -> None:
    assert read_delta({"content": [{"type": [], "text": "x"}]}).content == "x"
