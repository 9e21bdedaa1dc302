"""The record of one request: a line of requests.jsonl."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import orjson

from records.files import JsonObject, read_json_lines

SCHEMA_VERSION = 1


class Phase(StrEnum):
    """The part of a cell that a request belongs to. Only `measure` and `drain` (ends after the steady window) count."""

    WARMUP = "warmup"
    MEASURE = "measure"
    DRAIN = "drain"


@dataclass(slots=True)
class Record:
    """One request, as it is kept in `requests.jsonl`; see docs/methodology.md.

    All times are `time.monotonic_ns()` integers of the client that sent the request; clocks of different hosts are
    never compared. A value that is unknown is None (JSON null), never 0.
    """

    id: str
    engine: str
    cell: str
    round: int
    worker: str
    user: int
    seq: int
    attempt: int
    workload: str
    prompt_id: str
    prompt_sha256: str
    sample: int
    phase: str
    connect_ns: int | None
    """Duration of the connect, if this request opened a connection; null on a connection kept alive."""
    scheduled_ns: int | None
    """When the request was due (open loop); null in a closed loop."""
    sent_ns: int | None
    """Just before the first byte went out on an open connection; null if none went out."""
    end_ns: int
    first_token_ns: int | None = None
    """Arrival of the first generated token. White space alone is none, as long as any other text follows."""
    first_answer_ns: int | None = None
    """The same without thoughts: content, a refusal or a tool call."""
    last_token_ns: int | None = None
    """Arrival of the last generated token of any kind and of any choice."""
    chunk_ns: list[int] = field(default_factory=list)
    """Arrival of every event that brought generated tokens: content, thoughts, refusals, tool calls, of any choice."""
    chunk_chars: list[int] = field(default_factory=list)
    """Characters that each of these events brought."""
    chunk_tokens: list[int] | None = None
    """Tokens that each of these events brought; null unless known for all of them."""
    chunk_token_source: str | None = None
    """`engine` (usage or logprobs in every event) or `tokenizer`."""
    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    tool_calls: list[JsonObject] = field(default_factory=list)
    """{"name": str, "arguments": str} of each tool call (or legacy function call), the arguments as generated."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    """How many of completion_tokens are thoughts, by usage; the engine may have streamed them or not."""
    token_source: str | None = None
    max_tokens: int | None = None
    finish_reason: str | None = None
    choices: int = 1
    """How many choices the stream had. Text is that of choice 0; usage counts the tokens of all."""
    done: bool = False
    status: str = "ok"
    """`ok`, `error`, or `cancelled`: the client closed the stream on purpose (`cancel_share`), which is no error."""
    error: JsonObject | None = None
    """{"kind": ErrorKind, "message": str} where status is "error"."""
    http_status: int | None = None
    server_timings: JsonObject | None = None
    system_fingerprint: str | None = None
    conversation: str | None = None
    """The conversation that the request is a turn of, as it was held this once; null for a single question."""
    turn: int | None = None
    """Which turn of it, from 1."""
    turns: int | None = None
    """How many turns it was to have."""
    notes: list[str] = field(default_factory=list)
    """What the response said and the record cannot hold, one sentence each."""
    schema: int = SCHEMA_VERSION

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def failed(self) -> bool:
        return self.status == "error"

    @property
    def measured(self) -> bool:
        return self.phase != Phase.WARMUP

    def to_dict(self) -> JsonObject:
        return asdict(self)

    def to_json_line(self) -> str:
        """The record as one line of ASCII JSON with its newline. U+2028 and lone surrogates are escaped."""
        # A shallow dict: asdict would deep-copy thousands of stamps.
        values = {name: getattr(self, name) for name in _FIELDS}
        if self.text.isascii() and self.reasoning.isascii():
            # Takes a third of the time, but refuses numbers of more than 64 bits and lone surrogates elsewhere.
            with contextlib.suppress(TypeError):
                line = orjson.dumps(values)
                if line.isascii():
                    return line.decode("ascii") + "\n"
        return json.dumps(values, separators=(",", ":")) + "\n"

    @classmethod
    def from_dict(cls, values: JsonObject) -> Self:
        """Build a record from parsed JSON. Fields that this version does not know are ignored.

        Raises:
            TypeError: a required field is missing.
        """
        return cls(**{name: value for name, value in values.items() if name in _FIELD_SET})


_FIELDS = tuple(f.name for f in fields(Record))
_FIELD_SET = frozenset(_FIELDS)


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a `requests.jsonl`. Skips a last line that a kill cut off.

    Raises:
        ValueError: another line is no record; the message names file and line.
    """
    for number, values in read_json_lines(path):
        try:
            yield Record.from_dict(values)
        except TypeError as error:
            raise ValueError(f"{path}:{number}: not a record: {error}") from None


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def prompt_sha256(messages: Sequence[Any]) -> str:
    """The identity of a prompt: the SHA-256 of its messages as canonical JSON (sorted keys, no spaces, ASCII)."""
    return hashlib.sha256(_CANONICAL.encode(messages).encode("ascii")).hexdigest()
