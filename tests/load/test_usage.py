"""Counts, and what of a server's timings a record can hold."""

from __future__ import annotations

from typing import Any

import pytest

from load.chat.json import error_message, error_text
from load.chat.sse import SSEDecoder
from load.chat.usage import count_of, merge_usage, storable


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (0, 0), (8, 8), (8.0, 8), (2**31 - 1, 2**31 - 1), (2**31, None), (-1, None), (8.5, None), (True, None),
        ("8", None), (None, None), (float("inf"), None),
    ],
)  # fmt: skip
def test_a_count_is_a_whole_number_that_can_be_one(value: Any, count: int | None) -> None:
    assert count_of(value) == count


def test_a_later_usage_adds_and_never_erases() -> None:
    known = {"prompt_tokens": 9, "completion_tokens": 3}
    assert merge_usage(None, {"prompt_tokens": 0}) == {"prompt_tokens": 0}
    assert merge_usage(known, {}) == known
    assert merge_usage(known, {"prompt_tokens": None, "completion_tokens": 4, "x": 0}) == {
        **known, "completion_tokens": 4, "x": 0,
    }  # fmt: skip


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "kept", "note"),
    [
        ({"ms": 1.5, "n": 2**63 - 1}, {"ms": 1.5, "n": 2**63 - 1}, None),
        ({"n": 2**63}, {"n": None}, "timings.n was dropped: a number of more than 64 bits"),
        ({"ms": float("nan")}, {"ms": None}, "timings.ms was dropped: not a finite number"),
        (nested(8), nested(8), None),
        (list(range(511)), list(range(511)), None),
        (list(range(512)), [*range(511), None], "timings was dropped: too much data"),
    ],
)
def test_what_a_record_cannot_hold_is_dropped_with_a_note(value: Any, kept: Any, note: str | None) -> None:
    notes: list[str] = []
    assert storable(value, "timings", notes) == kept
    assert notes == ([note] if note else [])


def test_one_note_stands_for_all_of_its_kind_and_there_are_at_most_twenty() -> None:
    notes: list[str] = []
    storable([2**64, 2**64], "timings", notes)
    assert notes == ["timings was dropped: a number of more than 64 bits"]
    storable({f"f{n}": 2**64 for n in range(40)}, "timings", notes)
    assert len(notes) == 20


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ({"message": "no"}, "no"),
        ({"error": [{"message": "a"}, {"detail": "b"}]}, "a; b"),
        ("plain", "plain"),
        ({"code": 5}, "{'code': 5}"),
    ],
)
def test_the_message_of_an_error_is_found(error: Any, text: str) -> None:
    assert error_text(error) == text


def test_the_message_of_an_error_body_is_that_of_its_error_field() -> None:
    assert error_message(b'{"error": {"message": "no model"}, "message": "other"}') == "no model"
    assert error_message(b'["a", "b"]') == "a; b"
    assert error_message(b"no JSON") == "no JSON"


@pytest.mark.parametrize(
    ("data", "between"),
    [
        (b"data: a\n\n", True),
        (b"data: a\n", False),
        (b"data: a", False),
        (b"event: x\n", False),
        (b"data: a\r\n\r", False),
        (b": ping\n\n", True),
    ],
)
def test_between_events_nothing_is_held_back(data: bytes, between: bool) -> None:
    decoder = SSEDecoder()
    assert not decoder.between_events
    decoder.feed(data)
    assert decoder.between_events is between
