"""The closed list of request errors, and which of them a resumed run asks again."""

from __future__ import annotations

from enum import StrEnum


class ErrorKind(StrEnum):
    """The closed list of request errors. A request that is not ok has exactly one of these."""

    CONNECT_FAILED = "connect_failed"
    """No connection could be opened (refused, unreachable, TLS, name lookup) before its deadline."""
    HTTP_STATUS = "http_status"
    """A status other than 200 that no other kind names; redirects are here, since they are never followed."""
    RATE_LIMITED = "rate_limited"
    """HTTP 429."""
    BUSY = "busy"
    """HTTP 503: the engine is full or still loading."""
    IN_BAND_ERROR = "in_band_error"
    """An error inside HTTP 200: an error event, an error in a choice, or an error body in place of a stream."""
    ABORTED = "aborted"
    """The connection ended in the middle: reset, or closed before the body's framing was complete."""
    SILENCE_TIMEOUT = "silence_timeout"
    """Nothing arrived for longer than the silence deadline (the wait for the first byte included)."""
    TOTAL_TIMEOUT = "total_timeout"
    """The request's own deadline passed."""
    BAD_FRAME = "bad_frame"
    """HTTP or chunk framing that cannot be parsed, or a body over the size limit."""
    BAD_JSON = "bad_json"
    """A data event that is neither `[DONE]` nor a JSON object."""
    NO_FINISH_REASON = "no_finish_reason"
    """A clean end without a finish_reason that the API defines: the engine dropped the stream."""
    EMPTY = "empty"
    """A clean end without any generated text: no answer, thought, refusal or tool call."""
    ENCODING = "encoding"
    """A compressed body although identity was asked, or text that is not UTF-8."""
    USAGE_CONTRADICTS = "usage_contradicts"
    """Usage that the stream itself disproves: fewer tokens than its events can hold, or more than its text can."""
    ENGINE_GONE = "engine_gone"
    """The engine's process ended while the request was in flight (set by the driver, which sees the process)."""
    CANCELLED = "cancelled"
    """The client was stopped before the request ended."""


ASKED_AGAIN = frozenset({ErrorKind.CANCELLED, ErrorKind.ENGINE_GONE, ErrorKind.CONNECT_FAILED})
"""Requests that the engine never answered. A resumed quality cell asks them again; the later record counts."""

FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
"""The finish reasons that the API defines. A stream that ends with any other is `no_finish_reason`."""
