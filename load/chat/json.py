"""JSON as servers really send it, and what can be told of the rest."""

from __future__ import annotations

import json
from typing import Any

import orjson

from records import ErrorKind


def loads(data: bytes) -> Any:
    """Parse JSON, also what orjson refuses and servers send: NaN, and half a surrogate pair in each of two deltas.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if b"\\u" not in data and b"NaN" not in data and b"Infinity" not in data:
            raise
        try:
            return json.loads(data, parse_constant=lambda _: None)
        except RecursionError:
            raise error from None


def error_message(data: bytes) -> str:
    """What an error event says, in at most 500 characters."""
    try:
        value = loads(data)
    except ValueError:
        return data[:500].decode("utf-8", "replace")
    error = value.get("error", value) if isinstance(value, dict) else value
    message = error.get("message", error) if isinstance(error, dict) else error
    return str(message)[:500]


def unreadable(data: bytes, error: Exception) -> tuple[ErrorKind, str]:
    """The kind of error that data are which `loads()` has refused."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return ErrorKind.ENCODING, f"not UTF-8: {data[:100]!r}"
    return ErrorKind.BAD_JSON, f"{error}: {data[:200]!r}"


def whole(text: str) -> str:
    """Join surrogates that came in two deltas; one that stays alone becomes U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
