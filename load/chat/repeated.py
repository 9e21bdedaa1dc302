"""Reads the content of an event that repeats the bytes of the one before it, all but the content."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice

import orjson

_CONTENT = re.compile(rb'"content"\s*:\s*("(?:[^"\\]|\\.)*")')
MOST_PLACES = 4
"""Places of a content that are tried: an event is the engine's, and could have thousands."""
_PROBE = "\x00probe\x00"
_PREFIX = b"data: "


def content_reader(event: bytes) -> Callable[[bytes], str | None] | None:
    """Learn from a whole plain event, `data: {...}` with its blank line, how to read the content of the next ones.

    Returns a function from an event's bytes to its content, None where the event differs in anything else; and None
    where the content cannot be found. A JSON text stays the same but for one string when that string's literal is
    replaced by another, so the function returns what a parse of the whole event would give.
    """
    for match in islice(_CONTENT.finditer(event), MOST_PLACES):
        start, end = match.span(1)
        probe = event[len(_PREFIX) : start] + orjson.dumps(_PROBE) + event[end:]
        try:
            if orjson.loads(probe)["choices"][0]["delta"]["content"] == _PROBE:
                return _between(event[: start + 1], event[end - 1 :])
        except (ValueError, TypeError, LookupError):
            continue
    return None


def _between(before: bytes, after: bytes) -> Callable[[bytes], str | None]:
    """Read the string between two pieces; each holds the quote on its side."""
    least, start, end, loads = len(before) + len(after), len(before) - 1, 1 - len(after), orjson.loads

    def read(data: bytes) -> str | None:
        if data.startswith(before) and data.endswith(after) and len(data) >= least:
            try:
                content: str = loads(data[start:end])
            except ValueError:
                # No literal of one string, or half a surrogate pair.
                return None
            return content
        return None

    return read
