"""Fast path: decodes an event that differs from the previous one only in its content string."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice

import orjson

_CONTENT = re.compile(rb'"content"\s*:\s*("(?:[^"\\]|\\.)*")')
MOST_PLACES = 4
"""Most places of a content that are tried: a hostile engine's event could have thousands."""
_PROBE = "\x00probe\x00"
_PREFIX = b"data: "


def content_reader(event: bytes) -> Callable[[bytes], str | None] | None:
    """Build a reader for the content of similar events from a complete event, `data: {...}` with its blank line.

    Returns a function from an event's bytes to its content (None if the event differs in anything else), or None if
    the content cannot be located. Replacing one string literal in a JSON text changes only that string, so the function
    returns the same as a parse of the whole event.
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
    """A reader for the string between two byte strings, each of which includes the quote on its side."""
    least, start, end, loads = len(before) + len(after), len(before) - 1, 1 - len(after), orjson.loads

    def read(data: bytes) -> str | None:
        if data.startswith(before) and data.endswith(after) and len(data) >= least:
            try:
                content: str = loads(data[start:end])
            except ValueError:
                # Not a literal of a single string, or a lone surrogate.
                return None
            return content
        return None

    return read
