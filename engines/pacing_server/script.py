"""The bytes that the pacing server sends: a good answer, its valid variants, and every fault that clients meet.

Pure: no sockets and no clock. A token's chunk is three pieces, `before` + the send stamp + `after`, so that sending
one costs a concatenation. The stamp is 18 digits in the content itself. With stamps, it is the server's
`time.monotonic_ns()` at the send, so that a client on the same host can compute how late it saw each chunk. Otherwise
it is zeros.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from engines.pacing_server.dialects import DIALECTS, finish_reason
from engines.pacing_server.schedule import Schedule
from records.endpoint import CHAT

STAMP_DIGITS = 18
_MARK = "9" * STAMP_DIGITS
MODEL = "pacing"


class End(StrEnum):
    """What happens to the connection after the last byte."""

    KEEP = "keep"
    CLOSE = "close"
    RESET = "reset"
    SILENCE = "silence"


@dataclass(frozen=True, slots=True)
class Script:
    """One answer: `head` goes out when the request was read, `chunks` tokens by the clock, `tail` after the last.

    `first` are the pieces around the stamp of the first chunk, where it differs from the others.
    """

    head: bytes
    before: bytes = b""
    after: bytes = b""
    chunks: int = 0
    tail: bytes = b""
    end: End = End.KEEP
    first: tuple[bytes, bytes] | None = None


@lru_cache(maxsize=256)
def script(schedule: Schedule, prompt_tokens: int, endpoint: str = CHAT) -> Script:
    """The bytes of one answer; `endpoint` is that of the API which was asked."""
    fault = schedule.fault
    if fault in ("status_500", "redirect", "rate_limited", "busy"):
        return Script(_REFUSALS[fault])
    if fault == "no_answer":
        return Script(b"", end=End.SILENCE)
    writer = _Writer(fault, endpoint)
    before, after = writer.around_stamp(schedule.tokens_per_chunk)
    chunks = schedule.chunks
    end = End.CLOSE if fault == "close_delimited" else End.KEEP
    counted = 0 if fault == "usage_zero" else schedule.tokens
    tail = writer.tail(counted, prompt_tokens)
    if fault in _MIDDLE:
        chunks = max(1, chunks // 2)
        tail, end = _MIDDLE[fault]
    if fault == "empty":
        chunks = 0
    return Script(writer.head(), before, after, chunks, tail, end, writer.around_first_stamp(schedule.tokens_per_chunk))


def json_answer(status: str, value: Any, *headers: str) -> bytes:
    """A complete response with a JSON body."""
    body = json.dumps(value, separators=(",", ":")).encode()
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def whole_answer(schedule: Schedule, prompt_tokens: int) -> bytes:
    """The answer to a request that does not ask for a stream."""
    message = {"role": "assistant", "content": " on" * schedule.tokens}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": schedule.tokens}
    choice = {"index": 0, "message": message, "finish_reason": "length"}
    return json_answer("200 OK", {"object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage})


class _Writer:
    """Writes events as one variant or fault has them."""

    def __init__(self, fault: str, endpoint: str) -> None:
        self._fault, self._endpoint = fault, endpoint
        self._newline = b"\r\n" if fault == "crlf" else b"\n"

    def head(self) -> bytes:
        headers = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
        headers += b"Content-Encoding: gzip\r\n" if self._fault == "encoded" else b""
        headers += b"Connection: close\r\n" if self._fault == "close_delimited" else b"Transfer-Encoding: chunked\r\n"
        role = (
            b""
            if self._fault == "no_role" or self._endpoint != CHAT
            else self._framed(self._event(_delta({"role": "assistant", "content": ""})))
        )
        return headers + b"\r\n" + role

    def around_stamp(self, tokens: int) -> tuple[bytes, bytes]:
        text = f" {_MARK}" + " on" * (tokens - 1)
        if self._fault in DIALECTS:
            return self._around_mark(DIALECTS[self._fault][1](text))
        return self._around_mark({"reasoning_content" if self._fault == "reasoning" else "content": text})

    def around_first_stamp(self, tokens: int) -> tuple[bytes, bytes] | None:
        """The same for the first chunk; None where it is like the others."""
        if self._fault not in DIALECTS:
            return None
        return self._around_mark(DIALECTS[self._fault][0](f" {_MARK}" + " on" * (tokens - 1)))

    def _around_mark(self, delta: dict[str, Any]) -> tuple[bytes, bytes]:
        event = self._event(_delta(delta))
        if self._fault == "pings":
            event = b": ping" + self._newline * 2 + event
        # "split": two HTTP chunks, cut in the middle of a line.
        pieces = [event[:9], event[9:]] if self._fault == "split" else [event]
        framed = b"".join(self._framed(piece) for piece in pieces)
        before, _, after = framed.partition(_MARK.encode())
        return before, after

    def tail(self, tokens: int, prompt_tokens: int) -> bytes:
        fault = self._fault
        out = b""
        if fault == "finish_null":
            out += self._framed(self._event(_delta({}, None)))
        elif fault != "no_finish_reason":
            reason = finish_reason(fault) if fault in DIALECTS else "stop" if fault == "empty" else "length"
            out += self._framed(self._event(_delta({}, reason)))
        if fault not in ("no_usage", "finish_null"):
            count = 0 if fault == "empty" else tokens
            usage = {"prompt_tokens": prompt_tokens, "completion_tokens": count, "total_tokens": prompt_tokens + count}
            out += self._framed(self._event(_chunk([], None if fault == "usage_null" else usage)))
        if fault not in ("no_done", "finish_null"):
            out += self._framed(b"data: [DONE]" + self._newline * 2)
        return out if fault == "close_delimited" else out + b"0\r\n\r\n"

    def _event(self, value: dict[str, Any]) -> bytes:
        if self._endpoint != CHAT:
            value = value | {"object": "text_completion", "choices": [_as_text(choice) for choice in value["choices"]]}
        return b"data: " + json.dumps(value, separators=(",", ":")).encode() + self._newline * 2

    def _framed(self, data: bytes) -> bytes:
        return data if self._fault == "close_delimited" else b"%x\r\n%s\r\n" % (len(data), data)


def _as_text(choice: dict[str, Any]) -> dict[str, Any]:
    """A choice of /v1/completions: its text in place of a delta."""
    text = str(choice["delta"].get("content", ""))
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": choice["finish_reason"]}


def _delta(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return _chunk([{"index": 0, "delta": delta, "finish_reason": finish}])


def _chunk(choices: list[Any], usage: dict[str, int] | None = None) -> dict[str, Any]:
    chunk = {
        "id": "chatcmpl-pacing",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": MODEL,
        "choices": choices,
    }
    return chunk if choices else {**chunk, "usage": usage}


def _framed_line(line: bytes) -> bytes:
    return b"%x\r\n%s\n\n\r\n" % (len(line) + 2, line)


_ERROR = b'{"error":{"message":"out of memory","type":"server_error","code":500}}'
_OVER = b"0\r\n\r\n"
_MIDDLE: dict[str, tuple[bytes, End]] = {
    "in_band_error": (_framed_line(b"data: " + _ERROR) + _framed_line(b"data: [DONE]") + _OVER, End.KEEP),
    "error_line": (_framed_line(b"error: " + _ERROR) + _OVER, End.KEEP),
    "bad_json": (_framed_line(b'data: {"choices": [{"index"') + _framed_line(b"data: [DONE]") + _OVER, End.KEEP),
    "bad_frame": (b"zz\r\nnot a chunk size\r\n", End.CLOSE),
    "reset": (b"", End.RESET),
    "abort": (b"", End.CLOSE),
    "silence": (b"", End.SILENCE),
}
_REFUSALS = {
    "status_500": json_answer("500 Internal Server Error", {"error": {"message": "failed", "code": 500}}),
    "redirect": json_answer("307 Temporary Redirect", {}, "Location: http://127.0.0.1:9/v1/chat/completions"),
    "rate_limited": json_answer("429 Too Many Requests", {"error": {"message": "slow down"}}, "Retry-After: 1"),
    "busy": json_answer("503 Service Unavailable", {"error": {"message": "engine is busy"}}, "Retry-After: 1"),
}
