"""Parses the JSON that servers really send, and extracts the message of an error."""

from __future__ import annotations

import json
from typing import Any

import orjson

from records import ErrorKind


def loads(data: bytes) -> Any:
    """Parse JSON, including NaN, lone surrogates and numbers of any size, which servers send and orjson refuses.

    Raises:
        ValueError: the data is not JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        try:
            return json.loads(data.decode("utf-8"), parse_constant=lambda _: None, parse_int=_parse_int)
        except (ValueError, RecursionError):
            raise error from None


def _parse_int(digits: str) -> int | float:
    # Python refuses to parse more than 4300 digits.
    return int(digits) if len(digits) < 1000 else float("inf")


def error_message(data: bytes) -> str:
    """The message of an error event or an error body, in at most 500 characters."""
    try:
        value = loads(data)
    except ValueError:
        return data[:500].decode("utf-8", "replace")
    return error_text((value.get("error") or value) if isinstance(value, dict) else value)


def error_text(error: Any) -> str:
    """The message of an error: a string, an object with a message, or a list of those; at most 500 characters."""
    if isinstance(error, list):
        return "; ".join(error_text(item) for item in error[:10])[:500]
    if isinstance(error, dict):
        error = next((error[name] for name in ("message", "detail", "error") if error.get(name)), error)
        return error_text(error) if isinstance(error, list) else str(error)[:500]
    return str(error)[:500]


def body_error(data: bytes, content_type: str) -> tuple[ErrorKind, str] | None:
    """Why a complete body without any event is no answer; None if the reason is unknown."""
    if not data.strip():
        return None
    try:
        value = loads(data)
    except ValueError:
        value = None
    if isinstance(value, dict) and any(value.get(name) for name in ("error", "detail", "message")):
        return ErrorKind.IN_BAND_ERROR, error_message(data)
    if content_type.startswith("text/event-stream"):
        return None
    shown = " ".join(data[:400].decode("utf-8", "replace").split())
    return ErrorKind.NO_FINISH_REASON, f"no event stream but {content_type or 'an untyped body'}: {shown}"


def unreadable(data: bytes, error: Exception) -> tuple[ErrorKind, str]:
    """The error kind and message for data that `loads()` refused."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return ErrorKind.ENCODING, f"not UTF-8: {data[:100]!r}"
    return ErrorKind.BAD_JSON, f"{error}: {data[:200]!r}"


def whole(text: str) -> str:
    """Join surrogates that were split over two deltas; a lone surrogate becomes U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
