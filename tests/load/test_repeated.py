"""The shortcut for the event that nearly every one is: it says what a whole parse says, or nothing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import load.chat.decode as decode_module
from load.chat.answer import Answer
from load.chat.decode import decode
from load.chat.repeated import content_reader
from load.chat.sse import SSEDecoder

STYLES: list[dict[str, Any]] = [{}, {"separators": (",", ":")}, {"ensure_ascii": False}]
TEXTS = st.text(st.characters(codec="utf-8")) | st.sampled_from(['"', "\\", "\n", "\u2028", "é", '"}', 'x","y":"'])


def event_of(content: Any, **style: Any) -> bytes:
    value = {"id": "c1", "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}], "model": "m"}
    return b"data: " + json.dumps(value, **style).encode() + b"\n\n"


def parsed(event: bytes) -> Any:
    """The content of an event by the long way; None where it is not exactly one event of a delta with text."""
    found = SSEDecoder().feed(event)
    try:
        (only,) = found
        return json.loads(only.data)["choices"][0]["delta"]["content"]
    except (ValueError, TypeError, LookupError):
        return None


@given(first=TEXTS, second=TEXTS, style=st.sampled_from(STYLES))
def test_the_content_of_the_next_event_is_what_a_parser_reads(first: str, second: str, style: dict[str, Any]) -> None:
    content_of = content_reader(event_of(first, **style))
    assert content_of is not None
    assert content_of(event_of(second, **style)) == second


@given(middle=st.binary() | TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_bytes_that_are_no_string_are_left_to_the_parser(middle: bytes) -> None:
    before, after = event_of("@@").split(b"@@")
    content_of = content_reader(event_of("x"))
    assert content_of is not None
    found = content_of(before + middle + after)
    assert found is None or found == parsed(before + middle + after)


@pytest.mark.parametrize(
    "other",
    [
        event_of("a").replace(b'"c1"', b'"c2"'),
        event_of("a").replace(b"null", b'"stop"'),
        event_of("a") + event_of("b"),
        event_of("a")[:-1],
        event_of(None),
        event_of(5),
        b": ping\n\n",
        b'data: {"id": "c1", "choices": [{"index": 0, "delta": {"content": "}], "model": "m"}\n\n',
    ],
)
def test_an_event_that_differs_in_anything_else_is_left_to_the_parser(other: bytes) -> None:
    content_of = content_reader(event_of("x"))
    assert content_of is not None
    assert content_of(other) is None


def test_content_is_found_where_the_delta_has_it_and_nowhere_else() -> None:
    event = b'data: {"content": "no", "choices": [{"note": {"content": "no"}, "delta": {"content": "yes"}}]}\n\n'
    content_of = content_reader(event)
    assert content_of is not None
    assert content_of(event) == "yes"
    assert content_reader(b'data: {"content": "no"}\n\n') is None
    assert content_reader(b"data: {}\n\n") is None


def test_an_event_of_a_thousand_contents_is_not_searched_to_its_end() -> None:
    event = b'data: {"choices": [{"delta": {' + b",".join([b'"content": "x"'] * 1000) + b"}}]}\n\n"
    assert content_reader(event) is None


EVENTS = st.one_of(
    TEXTS.map(event_of),
    TEXTS.map(lambda text: event_of(text).replace(b'"c1"', b'"c2"')),
    st.sampled_from([b": ping\n\n", b"data: [DONE]\n\n", b'data: {"error": "no"}\n\n', b"data: {\n\n", event_of(None)]),
)


@given(stream=st.lists(EVENTS, max_size=60))
def test_an_answer_is_the_same_with_and_without_the_shortcut(stream: list[bytes]) -> None:
    def answer() -> Answer:
        *_, whole = decode([(n, event) for n, event in enumerate([b"\n", *stream])])
        return whole

    usual = answer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode_module, "content_reader", lambda _: None)
        assert answer() == usual
