"""Server-sent events and chat deltas, pure: bytes in, events and answers out; no I/O, no clock.

Follows the event stream format of the WHATWG HTML standard (section 9.2) on bytes: LF, CR and CRLF never occur inside
a UTF-8 character, so text may be split anywhere and U+2028 is no line end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from records import FINISH_REASONS, ErrorKind

DONE = b"[DONE]"
MAX_EVENT_BYTES = 16 * 2**20
YIELD_EVERY = 16
"""Pieces decoded in one go; some 0.1 ms."""


class Event(NamedTuple):
    """One dispatched event: its type ("message" unless named) and its data, lines joined by LF."""

    kind: str
    data: bytes


class SSEDecoder:
    """Cuts a byte stream into events. `feed()` may be given any split of the bytes; `flush()` ends the stream."""

    def __init__(self) -> None:
        self._buffer = b""
        self._data: list[bytes] = []
        self._kind = b""
        self._after_cr = False
        self._at_start = True

    def feed(self, data: bytes) -> list[Event]:
        """Take in bytes; returns the events that they complete."""
        if self._at_start and data:
            self._buffer += data
            if len(self._buffer) < 3 and b"\xef\xbb\xbf".startswith(self._buffer):
                return []
            data, self._buffer = self._buffer.removeprefix(b"\xef\xbb\xbf"), b""
            self._at_start = False
        if self._after_cr and data:
            # The second half of a CRLF that was split.
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if not data:
            return []
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return list(self._dispatch(lines))

    def flush(self) -> list[Event]:
        """The stream is over: an event that lacks only its blank line still counts, since servers forget it."""
        lines, self._buffer = ([self._buffer] if self._buffer else []), b""
        return list(self._dispatch([*lines, b""]))

    @property
    def between_events(self) -> bool:
        """Whether all that was fed is dispatched, so that the next byte begins a new event."""
        return not (self._buffer or self._data or self._kind or self._after_cr or self._at_start)

    @property
    def pending_bytes(self) -> int:
        """Bytes held for an event that is not complete yet."""
        return len(self._buffer) + sum(map(len, self._data))

    def _dispatch(self, lines: list[bytes]) -> Iterator[Event]:
        for line in lines:
            if not line:
                if self._data:
                    yield Event(self._kind.decode("utf-8", "replace") or "message", b"\n".join(self._data))
                self._data, self._kind = [], b""
            elif line.startswith(b"data:"):
                self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line.startswith(b"event:"):
                self._kind = line[6:].strip()
            elif line.startswith(b"error:"):
                # Older llama.cpp servers wrote failures so, outside the standard.
                yield Event("error", line[6:].strip())
            elif line == b"data":
                self._data.append(b"")
            # Comments (":"), id:, retry: and unknown fields carry nothing of an answer.


_PLAIN_KEYS = frozenset({"id", "object", "created", "model", "choices", "system_fingerprint"})


@dataclass(slots=True)
class Answer:
    """What a stream said, gathered delta by delta. Stamps are nanoseconds of the caller's clock."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    chunk_ns: list[int] = field(default_factory=list)
    chunk_chars: list[int] = field(default_factory=list)
    chunk_tokens: list[int | None] = field(default_factory=list)
    first_answer_ns: int | None = None
    finish_reason: str | None = None
    done: bool = False
    usage: dict[str, Any] | None = None
    timings: dict[str, Any] | None = None
    fingerprint: str | None = None
    error: tuple[ErrorKind, str] | None = None
    tool_calls: bool = False
    cut_off: bool = False
    """Whether the connection ended in the middle of an event."""
    _counted: int = 0
    _thought_at: list[int] = field(default_factory=list)
    """Which of the chunks hold reasoning alone."""

    def take(self, event: Event, stamp_ns: int) -> None:
        """Take in one event that arrived at `stamp_ns`. After an error, or after `[DONE]`, nothing more is taken."""
        if self.error or self.done:
            return
        if event.data.strip() == DONE:
            self.done = True
        elif event.kind == "error":
            self.error = (ErrorKind.IN_BAND_ERROR, _message(event.data))
        else:
            self.take_data(event.data, stamp_ns)

    def take_data(self, data: bytes, stamp_ns: int) -> None:
        """Take in the data of an event that is neither `[DONE]` nor an error by its kind."""
        try:
            chunk = _loads(data)
        except ValueError as error:
            self.error = _unreadable(data, error)
            return
        if not isinstance(chunk, dict):
            self.error = (ErrorKind.BAD_JSON, f"a JSON object was expected: {data[:200]!r}")
        elif chunk.get("error") is not None:
            self.error = (ErrorKind.IN_BAND_ERROR, _message(data))
        else:
            self._take_chunk(chunk, stamp_ns)

    def take_plain(self, data: bytes, stamp_ns: int) -> bool:
        """Take in what nearly every event is, one delta of nothing but content; False, and nothing done, if it is not.

        It does no more than `take_data()`, in a third of its time.
        """
        try:
            chunk = orjson.loads(data)
            (choice,) = chunk["choices"]
            delta = choice["delta"]
            content = delta["content"]
        except (ValueError, TypeError, KeyError):
            return False
        if (
            type(content) is not str
            or not content
            or len(delta) != 1
            or choice.get("finish_reason") is not None
            or choice.get("index")
            or "logprobs" in choice
            or not _PLAIN_KEYS.issuperset(chunk)
            or chunk.get("system_fingerprint") != self.fingerprint
        ):
            return False
        self.text.append(content)
        self.chunk_ns.append(stamp_ns)
        self.chunk_chars.append(len(content))
        self.chunk_tokens.append(None)
        if self.first_answer_ns is None:
            self.first_answer_ns = stamp_ns
        return True

    def _take_chunk(self, chunk: dict[str, Any], stamp_ns: int) -> None:
        get = chunk.get
        if (usage := get("usage")) is not None and isinstance(usage, dict):
            self.usage = usage
        if (timings := get("timings")) is not None and isinstance(timings, dict):
            self.timings = timings
        if (fingerprint := get("system_fingerprint")) is not None and isinstance(fingerprint, str):
            self.fingerprint = fingerprint
        choices = get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict) or (choice.get("index") or 0) != 0:
                continue
            reason = choice.get("finish_reason")
            if isinstance(reason, str):
                self.finish_reason = reason
            delta = choice.get("delta")
            if isinstance(delta, dict):
                self._take_delta(delta, choice, usage, stamp_ns)

    def _take_delta(self, delta: dict[str, Any], choice: dict[str, Any], usage: Any, stamp_ns: int) -> None:
        get = delta.get
        content = get("content")
        if not isinstance(content, str):
            content = ""
        reasoning = _text(get("reasoning_content")) or _text(get("reasoning")) if len(delta) > 1 or not content else ""
        if get("tool_calls"):
            self.tool_calls = True
        if not content and not reasoning:
            return
        if content:
            self.text.append(content)
            if self.first_answer_ns is None:
                self.first_answer_ns = stamp_ns
        if reasoning:
            self.reasoning.append(reasoning)
            if not content:
                self._thought_at.append(len(self.chunk_ns))
        self.chunk_ns.append(stamp_ns)
        self.chunk_chars.append(len(content) + len(reasoning))
        plain = usage is None and "logprobs" not in choice
        self.chunk_tokens.append(None if plain else self._tokens_of(choice, usage))

    def _tokens_of(self, choice: dict[str, Any], usage: Any) -> int | None:
        """The tokens of a delta where the engine tells them: by usage in every chunk, or by its logprobs."""
        total = usage.get("completion_tokens") if isinstance(usage, dict) else None
        if isinstance(total, int):
            tokens, self._counted = total - self._counted, total
            return tokens if tokens >= 0 else None
        told = choice.get("logprobs")
        logprobs = told.get("content") if isinstance(told, dict) else None
        return len(logprobs) if isinstance(logprobs, list) and logprobs else None

    def drop_empty_thought(self) -> None:
        """Take the chunks of an empty thought for what they are: the template's frame, not tokens of the model.

        With thinking off, a server that parses `<think></think>` out of the prompt's own end sends that white
        space as reasoning before its prefill is done (seen: 8 ms instead of 185 ms).
        """
        if self.text and self._thought_at and not "".join(self.reasoning).strip():
            for at in reversed(self._thought_at):
                del self.chunk_ns[at], self.chunk_chars[at], self.chunk_tokens[at]
            self._thought_at.clear()

    def verdict(self) -> tuple[ErrorKind, str] | None:
        """Why a stream that ended cleanly is still no answer; None where it is one."""
        if self.error:
            return self.error
        if self.cut_off:
            return ErrorKind.ABORTED, "the connection ended in the middle of an event"
        if self.finish_reason not in FINISH_REASONS:
            return ErrorKind.NO_FINISH_REASON, f"the stream ended with finish_reason {self.finish_reason!r}"
        if not self.chunk_ns and not self.tool_calls:
            return ErrorKind.EMPTY, f"no text at all, finish_reason {self.finish_reason!r}"
        completion = (self.usage or {}).get("completion_tokens")
        if isinstance(completion, int) and self.chunk_ns:
            told = [tokens for tokens in self.chunk_tokens if tokens is not None]
            characters = sum(self.chunk_chars)
            # A token may be split over two deltas (a reasoning parser's seam), but not every one over many.
            too_many = len(self.chunk_ns) > 2 * completion + 4
            if completion < 1 or too_many or (told and sum(told) > completion):
                return (
                    ErrorKind.USAGE_CONTRADICTS,
                    f"usage tells {completion} tokens for {len(self.chunk_ns)} chunks of text",
                )
            if completion > 64 and completion > 16 * max(characters, 1):
                return ErrorKind.USAGE_CONTRADICTS, f"usage tells {completion} tokens for {characters} characters"
        return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _loads(data: bytes) -> Any:
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


def whole(text: str) -> str:
    """Join surrogates that came in two deltas; one that stays alone becomes U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _message(data: bytes) -> str:
    try:
        value = _loads(data)
    except ValueError:
        return data[:500].decode("utf-8", "replace")
    error = value.get("error", value) if isinstance(value, dict) else value
    message = error.get("message", error) if isinstance(error, dict) else error
    return str(message)[:500]


def _unreadable(data: bytes, error: Exception) -> tuple[ErrorKind, str]:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return ErrorKind.ENCODING, f"not UTF-8: {data[:100]!r}"
    return ErrorKind.BAD_JSON, f"{error}: {data[:200]!r}"


def decode(pieces: list[tuple[int, bytes]], *, cut: bool = False) -> Iterator[Answer]:
    """Decode a whole body, yielding the same Answer every few pieces so that the caller can pause in between.

    `cut` says that nothing vouches for the body's end (the connection ended it): an event that is only half there was
    then cut off, and is not the engine's bad JSON.
    """
    decoder, answer = SSEDecoder(), Answer()
    between_events = False
    for number, (stamp, data) in enumerate(pieces, start=1):
        if (
            data[:7] == b"data: {"
            and data.find(b"\n") == len(data) - 2
            and data[-1:] == b"\n"
            and b"\r" not in data
            and between_events
        ):
            # Nearly every read: one event, whole, of one line. The decoder would cut out the same.
            if not (answer.error or answer.done) and not answer.take_plain(data[6:-2], stamp):
                answer.take_data(data[6:-2], stamp)
        else:
            for event in decoder.feed(data):
                answer.take(event, stamp)
            between_events = decoder.between_events
            if decoder.pending_bytes > MAX_EVENT_BYTES and not answer.error:
                answer.error = (ErrorKind.BAD_FRAME, f"an event of more than {MAX_EVENT_BYTES} bytes")
        if not number % YIELD_EVERY or len(data) > 4096:
            yield answer
    if pieces:
        before = answer.error
        for event in decoder.flush():
            answer.take(event, pieces[-1][0])
        if cut and before is None and answer.error and answer.error[0] in (ErrorKind.BAD_JSON, ErrorKind.ENCODING):
            answer.error = None
            answer.cut_off = True
    yield answer
