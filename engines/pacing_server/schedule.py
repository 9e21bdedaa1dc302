"""The pacing server's settings: when each token is sent, and all faults and variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from engines.pacing_server.dialects import DIALECTS
from records import ErrorKind

FAULT_PREFIX = "pacing:"
"""A model name `pacing:<fault>` requests a fault, for clients that can't send further fields."""

FAULTS: dict[str, ErrorKind] = {
    "status_500": ErrorKind.HTTP_STATUS,
    "redirect": ErrorKind.HTTP_STATUS,
    "rate_limited": ErrorKind.RATE_LIMITED,
    "busy": ErrorKind.BUSY,
    "in_band_error": ErrorKind.IN_BAND_ERROR,
    "error_line": ErrorKind.IN_BAND_ERROR,
    "reset": ErrorKind.ABORTED,
    "abort": ErrorKind.ABORTED,
    "silence": ErrorKind.SILENCE_TIMEOUT,
    "no_answer": ErrorKind.SILENCE_TIMEOUT,
    "no_finish_reason": ErrorKind.NO_FINISH_REASON,
    "finish_null": ErrorKind.NO_FINISH_REASON,
    "empty": ErrorKind.EMPTY,
    "bad_json": ErrorKind.BAD_JSON,
    "bad_frame": ErrorKind.BAD_FRAME,
    "encoded": ErrorKind.ENCODING,
    "usage_zero": ErrorKind.USAGE_CONTRADICTS,
}
"""Each fault and its kind of error. Half of the tokens are sent before a fault in the middle."""

VARIANTS = (
    *("crlf", "pings", "no_done", "no_usage", "usage_null", "close_delimited", "split", "reasoning", "no_role"),
    *DIALECTS,
)
"""Unusual but valid answers: a client must accept each of them."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times at which tokens are sent, in ms; `fault` is a key of FAULTS, one of VARIANTS, or "": a good answer.

    The first token is due `ttft_ms` after the request was read, the next chunks every `interval_ms`. On a `grid` the
    first is delayed to the next multiple of the interval, so that all streams tick together. With `stamps` each chunk
    carries its send time as text; without, equal prompts get equal answers, as greedy decoding gives them. With `slots`
    at most this many answers are in progress; the others queue, and their TTFT begins when they get a slot.
    """

    ttft_ms: float = 50.0
    interval_ms: float = 10.0
    tokens: int = 100
    tokens_per_chunk: int = 1
    grid: bool = False
    fault: str = ""
    stamps: bool = False
    slots: int = 0

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: the message names the field and the expected value.
        """
        for name in ("ttft_ms", "interval_ms"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value <= 3_600_000:
                raise ValueError(f"{name}: 0 to 3600000 was expected, not {value!r}")
        for name in ("tokens", "tokens_per_chunk"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= 10_000_000:
                raise ValueError(f"{name}: 1 to 10000000 was expected, not {value!r}")
        if not isinstance(self.slots, int) or not 0 <= self.slots <= 1_000_000:
            raise ValueError(f"slots: 0 (no limit) to 1000000 was expected, not {self.slots!r}")
        if self.fault and self.fault not in FAULTS and self.fault not in VARIANTS:
            raise ValueError(f"fault: {self.fault!r} is none of {', '.join([*FAULTS, *VARIANTS])}")
        if self.grid and not self.interval_ms:
            raise ValueError("grid: needs an interval_ms above 0")

    @property
    def chunks(self) -> int:
        """How many chunks with text a good answer has."""
        return -(-self.tokens // self.tokens_per_chunk)


def asked_schedule(body: Mapping[str, Any], default: Schedule) -> Schedule:
    """The schedule of one request: the server's own, changed by `max_tokens`, the model's name and a `pacing` object.

    Raises:
        ValueError: a field does not exist, or a value is invalid.
    """
    schedule = default
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if limit is not None:
        schedule = replace(schedule, tokens=limit)
    model = body.get("model")
    if isinstance(model, str) and model.startswith(FAULT_PREFIX):
        schedule = replace(schedule, fault=model.removeprefix(FAULT_PREFIX))
    own = body.get("pacing") or {}
    if not isinstance(own, dict) or (unknown := set(own) - {field.name for field in fields(Schedule)}):
        what = f"no field {min(unknown)!r}" if isinstance(own, dict) else "an object was expected"
        raise ValueError(f"pacing: {what}; fields are {', '.join(field.name for field in fields(Schedule))}")
    if "slots" in own:
        raise ValueError("pacing: slots are the server's; a request cannot change them")
    return replace(schedule, **own)
