"""Collects the deltas of a chat stream into an answer, and decides whether it is valid. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from load.chat.delta import read_delta
from load.chat.json import error_message, error_text, loads, unreadable
from load.chat.sse import Event
from load.chat.tool_calls import Fragment, ToolCalls
from load.chat.usage import count_of, detail, merge_usage, notes_on, storable
from records import FINISH_REASONS, ErrorKind

DONE = b"[DONE]"
MAX_NOTES = 20


@dataclass(slots=True)
class Answer:
    """A stream's content, delta by delta. Stamps are nanoseconds of the caller's clock.

    `chunk_ns` and `chunk_chars` have one entry per event with generated text of any kind.
    """

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    chunk_ns: list[int] = field(default_factory=list)
    chunk_chars: list[int] = field(default_factory=list)
    first_token_ns: int | None = None
    first_answer_ns: int | None = None
    finish_reason: str | None = None
    done: bool = False
    usage: dict[str, Any] | None = None
    timings: dict[str, Any] | None = None
    fingerprint: str | None = None
    error: tuple[ErrorKind, str] | None = None
    cut_off: bool = False
    """Whether the connection ended in the middle of an event."""
    events: int = field(default=0, compare=False)
    """Number of events that `take` handled; other events are counted as chunks only."""
    notes: list[str] = field(default_factory=list)
    _calls: ToolCalls = field(default_factory=ToolCalls)
    _indices: set[int] = field(default_factory=set, compare=False)
    """The indices of choices with text."""
    _usages: int = 0
    _counted: int = 0
    """Completion tokens up to the last event that had text and a running count."""
    _tokens: dict[int, int] = field(default_factory=dict)
    """Tokens by chunk, where the engine reports them."""
    _no_counts: bool = False
    """Whether the stream had impossible running counts, such as 0 after text."""
    _thought_at: list[int] = field(default_factory=list)
    """Indices of the chunks that have only thoughts."""
    _first_answer_chunk_ns: int | None = None

    # -- taking events in ---------------------------------------------------------------------------------------------

    def take(self, event: Event, stamp_ns: int) -> None:
        """Add one event that arrived at `stamp_ns`. After an error or `[DONE]` further events are ignored."""
        if self.error or self.done:
            return
        data = event.data.strip()
        if not data:
            return
        self.events += 1
        if data == DONE:
            self.done = True
        elif event.kind == "error":
            self.error = (ErrorKind.IN_BAND_ERROR, error_message(event.data))
        else:
            self.take_data(event.data, stamp_ns)

    def take_data(self, data: bytes, stamp_ns: int) -> None:
        """Add the data of an event that is neither `[DONE]` nor an error by its kind."""
        try:
            chunk = loads(data)
        except ValueError as error:
            self.error = unreadable(data, error)
            return
        if not isinstance(chunk, dict):
            self.error = (ErrorKind.BAD_JSON, f"a JSON object was expected: {data[:200]!r}")
        elif chunk.get("error"):
            self.error = (ErrorKind.IN_BAND_ERROR, error_text(chunk["error"]))
        else:
            self._take_chunk(chunk, stamp_ns)

    def take_plain(self, data: bytes, stamp_ns: int) -> bool:
        """Fast path: add an event with one delta of only content. For any other event, do nothing and return False.

        Most events are of this kind. The result equals that of `take_data()`, in less than half of its time.
        """
        try:
            chunk = orjson.loads(data)
            (choice,) = chunk["choices"]
            delta = choice["delta"]
            content = delta["content"]
            if (
                type(content) is not str
                or not content
                or len(delta) != 1
                or choice.get("finish_reason") is not None
                or choice.get("index")
                or choice.get("logprobs") is not None
                or choice.get("error")
                or chunk.get("error")
                or "timings" in chunk
                or chunk.get("usage") is not None
                or chunk.get("system_fingerprint") != self.fingerprint
            ):
                return False
        except (ValueError, TypeError, KeyError, AttributeError):
            return False
        self.take_content(content, stamp_ns)
        return True

    def take_content(self, content: str, stamp_ns: int) -> None:
        """Add the (not empty) content of a delta that has nothing else."""
        self.text.append(content)
        self.chunk_ns.append(stamp_ns)
        self.chunk_chars.append(len(content))
        if self.first_answer_ns is None:
            self._see_first(content, stamp_ns, answers=True)

    def _see_first(self, piece: str, stamp_ns: int, *, answers: bool) -> None:
        """Record the first token, and the first token of the answer. White space alone counts as neither."""
        if answers and self._first_answer_chunk_ns is None:
            self._first_answer_chunk_ns = stamp_ns
        if is_blank(piece):
            return
        if self.first_token_ns is None:
            self.first_token_ns = stamp_ns
        if answers and self.first_answer_ns is None:
            self.first_answer_ns = stamp_ns

    def _take_chunk(self, chunk: dict[str, Any], stamp_ns: int) -> None:
        usage, timings, fingerprint = chunk.get("usage"), chunk.get("timings"), chunk.get("system_fingerprint")
        if isinstance(usage, dict):
            self._usages += 1
            self._note(*notes_on(usage))
            self.usage = merge_usage(self.usage, usage)
        if isinstance(timings, dict):
            self.timings = storable(timings, "timings", self.notes)
        if isinstance(fingerprint, str):
            self.fingerprint = fingerprint[:500]
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            if choice.get("error"):
                self.error = (ErrorKind.IN_BAND_ERROR, error_text(choice["error"]))
                return
            self._take_choice(choice, _running_count(usage, timings), stamp_ns)

    def _take_choice(self, choice: dict[str, Any], running: Any, stamp_ns: int) -> None:
        index = choice.get("index")
        index = index if isinstance(index, int) else 0
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason and index == 0:
            self.finish_reason = reason[:100]
        raw = choice.get("delta")
        if not isinstance(raw, dict):
            # A choice of /v1/completions has `text` instead of a delta.
            raw = {"content": choice.get("text")}
        delta = read_delta(raw)
        self._note(
            *(f"delta.{name[:40]} holds text of an unknown kind, which is not counted" for name in delta.unknown)
        )
        if not (characters := delta.characters):
            return
        self._indices.add(index)
        if index == 0:
            self._keep(delta.content, delta.thought, delta.refusal, delta.calls)
        if delta.thought:
            self._see_first(delta.thought, stamp_ns, answers=False)
        answer = delta.content + delta.refusal + "".join(call.name + call.arguments for call in delta.calls)
        if answer:
            self._see_first(answer, stamp_ns, answers=True)
        else:
            self._thought_at.append(len(self.chunk_ns))
        tokens = self._tokens_of(choice, running)
        if tokens is not None:
            self._tokens[len(self.chunk_ns)] = tokens
        self.chunk_ns.append(stamp_ns)
        self.chunk_chars.append(characters)

    def _keep(self, content: str, thought: str, refusal: str, calls: list[Fragment]) -> None:
        for pieces, piece in ((self.text, content), (self.reasoning, thought), (self.refusal, refusal)):
            if piece:
                pieces.append(piece)
        for call in calls:
            self._calls.take(call)

    def _tokens_of(self, choice: dict[str, Any], running: Any) -> int | None:
        """The tokens of a delta, from a running count in every event or from its logprobs; None without either."""
        if running is not None:
            total = count_of(running)
            if not total:
                self._no_counts = True
                return None
            tokens, self._counted = total - self._counted, total
            return tokens if tokens >= 0 else None
        logprobs = choice.get("logprobs")
        content = (logprobs.get("content") or logprobs.get("tokens")) if isinstance(logprobs, dict) else None
        return len(content) if isinstance(content, list) and content else None

    def _note(self, *notes: str) -> None:
        self.notes += [note for note in notes if note not in self.notes][: MAX_NOTES - len(self.notes)]

    # -- the whole answer ---------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Compute the values that need the whole stream."""
        self._drop_empty_thought()
        if self.chunk_ns and self.first_token_ns is None:
            self.first_token_ns = self.chunk_ns[0]
        if self.first_answer_ns is None:
            self.first_answer_ns = self._first_answer_chunk_ns

    def _drop_empty_thought(self) -> None:
        """Remove the chunks of a thought of only white space before an answer: they come from the template.

        With thinking off, a server that parses `<think></think>` out of the prompt's own end sends that white
        space as reasoning before its prefill is done (seen: 8 ms instead of 165 ms).
        """
        if self.text and self._thought_at and is_blank("".join(self.reasoning)):
            gone = set(self._thought_at)
            stays = [place for place in range(len(self.chunk_ns)) if place not in gone]
            self.chunk_ns = [self.chunk_ns[place] for place in stays]
            self.chunk_chars = [self.chunk_chars[place] for place in stays]
            self._tokens = {new: self._tokens[old] for new, old in enumerate(stays) if old in self._tokens}
            self._thought_at.clear()

    @property
    def chunk_tokens(self) -> list[int] | None:
        """Tokens of every chunk; None unless the engine reports plausible counts for all of them."""
        if self._no_counts or not self._tokens or len(self._tokens) != len(self.chunk_ns):
            return None
        tokens = [self._tokens[place] for place in range(len(self.chunk_ns))]
        # A count that never grows is the total, repeated in every event.
        return tokens if len(tokens) == 1 or sum(tokens[1:]) > 0 else None

    @property
    def tool_calls(self) -> list[dict[str, str]]:
        """{"name": str, "arguments": str} of each tool call (or the legacy function call)."""
        return self._calls.whole()

    @property
    def choices(self) -> int:
        return max(len(self._indices | {0}) if self.text else len(self._indices), 1)

    @property
    def completion_tokens(self) -> int | None:
        """Tokens by usage. If several events with text have 0, the server does not count, so the number is unknown."""
        tokens = count_of((self.usage or {}).get("completion_tokens"))
        return None if tokens == 0 and self.chunk_ns and self._usages > 1 else tokens

    @property
    def reasoning_tokens(self) -> int | None:
        return detail(self.usage or {}, "completion_tokens_details", "reasoning_tokens")

    def verdict(self) -> tuple[ErrorKind, str] | None:
        """Why a stream that ended cleanly is no valid answer; None if it is valid."""
        if self.error:
            return self.error
        if self.cut_off:
            return ErrorKind.ABORTED, "the connection ended in the middle of an event"
        if self.finish_reason not in FINISH_REASONS:
            return ErrorKind.NO_FINISH_REASON, f"the stream ended with finish_reason {self.finish_reason!r}"
        if not self.chunk_ns:
            return ErrorKind.EMPTY, f"no text at all, finish_reason {self.finish_reason!r}"
        return next(self._contradictions(), None)

    def _contradictions(self) -> Iterator[tuple[ErrorKind, str]]:
        tokens, chunks, characters = self.completion_tokens, len(self.chunk_ns), sum(self.chunk_chars)
        if tokens is None or self.choices > 1:
            return
        kind = ErrorKind.USAGE_CONTRADICTS
        # A single token may be split over two deltas (by a reasoning parser), but not every token over many.
        too_many = chunks > 2 * tokens + 4
        if tokens < 1 or too_many or sum(self.chunk_tokens or ()) > tokens:
            yield kind, f"usage gives {tokens} tokens for {chunks} chunks of text"
        hidden = 0 if self.reasoning else self.reasoning_tokens or 0
        shown = tokens - hidden
        if shown > 64 and shown > 16 * max(characters, 1):
            yield kind, f"usage gives {shown} tokens for {characters} characters"


def _running_count(usage: Any, timings: Any) -> Any:
    """Completion tokens up to this event, from its usage or llama.cpp's timings; None if it has neither."""
    if isinstance(usage, dict) and usage.get("completion_tokens") is not None:
        return usage["completion_tokens"]
    return timings.get("predicted_n") if isinstance(timings, dict) else None


def is_blank(text: str) -> bool:
    """Whether a text is invisible: only white space, zero-width and other control characters."""
    return not text.strip() or all(
        character.isspace() or unicodedata.category(character) in ("Cf", "Cc") for character in text
    )
