"""Defines TTFT, TTFA, TPOT, ITL, ICL and E2E of one request. Every figure, live or final, comes from here.

All times are milliseconds. A value that the stream cannot show is None, and `Withheld` says why.

An *event* is a delta that brought generated tokens. An *arrival* is a time stamp. Events that came in one read share
their arrival: nobody measured any time between them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from records.record import Record

NO_STREAM_NS = 1_000_000
"""An answer whose tokens all arrive within this time (1 ms) was held back and is no stream."""
HELD_BACK_NS_PER_TOKEN = 250_000
"""No engine makes a token of one stream in less (0.25 ms). The kernel stamps a held-back answer over several ms."""
HELD_BACK_TOKENS = 4
"""Fewer tokens can arrive that close together in a true stream, such as those of one speculative step.

At HELD_BACK_NS_PER_TOKEN they arrive within NO_STREAM_NS.
"""
HELD_BACK_SHARE = 0.25
"""A held-back answer streams for less than this share of its TTFT, which is the time in which it was made."""
EVENT_SHARE = 0.10
"""Without tokens per event, an event counts as one token while events and tokens differ by at most this share.

One token more than events is always allowed: usage counts the token that ends an answer, which is never sent.
"""


class Withheld(StrEnum):
    """Why a request has no TPOT. All but the last two make its ITL and ICL unknown as well."""

    OUT_OF_ORDER = "out_of_order"
    """Time stamps contradict each other, such as a first token before the send. No latency is given at all."""
    SEVERAL_CHOICES = "several_choices"
    """Usage counts the tokens of several choices, which the stream mixes."""
    TOO_SHORT = "too_short"
    """No interval exists in an answer of one token."""
    NO_STREAM = "no_stream"
    """The answer came in one event, within 1 ms, or held back (`_held_back`): nothing shows when a token was made."""
    TOKENS_UNKNOWN = "tokens_unknown"
    """Neither usage nor a tokenizer gives the tokens."""
    BURSTS = "bursts"
    """Events carry several tokens each, and how many is unknown: so is what the first one brought."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The latencies of one request in ms.

    - `ttft_ms`: first token - sent. White space alone is no first token (see `Record.first_token_ns`).
    - `ttfa_ms`: first token of the answer, thoughts left out - sent.
    - `e2e_ms`: last token - sent. Neither the usage event nor `[DONE]` counts.
    - `tpot_ms`: (last token - first token) / (tokens that arrived after the first token). See `tokens_after_first`.
    - `ttft_scheduled_ms`, `e2e_scheduled_ms`: open loop only, from when the request was due.
    """

    ttft_ms: float | None = None
    ttfa_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    ttft_scheduled_ms: float | None = None
    e2e_scheduled_ms: float | None = None
    withheld: Withheld | None = None
    """Why `tpot_ms` is None; None where it is known or where the request brought no token."""


def timing(record: Record) -> Timing:
    """The latencies of a request. Whether it counts (ok, measured) is the caller's question."""
    first, last, sent, due = record.first_token_ns, record.last_token_ns, record.sent_ns, record.scheduled_ns
    if first is None or last is None or sent is None:
        return Timing()
    if not in_order(record):
        return Timing(withheld=Withheld.OUT_OF_ORDER)
    after = tokens_after_first(record)
    return Timing(
        ttft_ms=(first - sent) / 1e6,
        ttfa_ms=None if record.first_answer_ns is None else (record.first_answer_ns - sent) / 1e6,
        tpot_ms=None if isinstance(after, Withheld) else (last - first) / 1e6 / after,
        e2e_ms=(last - sent) / 1e6,
        ttft_scheduled_ms=None if due is None else (first - due) / 1e6,
        e2e_scheduled_ms=None if due is None else (last - due) / 1e6,
        withheld=after if isinstance(after, Withheld) else None,
    )


def in_order(record: Record) -> bool:
    """Whether sent <= first token <= ... <= last token <= end. A clock cannot run backwards."""
    stamps = [record.sent_ns, record.first_token_ns, record.last_token_ns, record.end_ns]
    known = [stamp for stamp in stamps if stamp is not None]
    chunks = record.chunk_ns
    inside = not chunks or (chunks == sorted(chunks) and known[0] <= chunks[0] and chunks[-1] <= known[-1])
    return inside and known == sorted(known)


def tokens_after_first(record: Record) -> int | Withheld:
    """The tokens that arrived after the first token's time stamp, or why their number is unknown.

    They are the intervals between the first and the last token, and so what TPOT divides by. With tokens per event
    (`chunk_tokens`) it is their sum. Without them an event is one token while the numbers of events and tokens agree
    (`EVENT_SHARE`); then it is completion_tokens less the events up to the first token: completion_tokens - 1 where
    the first token came alone.
    """
    after = _tokens_after_first_stamp(record)
    return Withheld.NO_STREAM if isinstance(after, int) and _held_back(record, after) else after


def _held_back(record: Record, after: int) -> bool:
    """Whether the engine made the whole answer before it sent its first token, to judge by `after` further tokens."""
    first, last, sent = record.first_token_ns, record.last_token_ns, record.sent_ns
    if first is None or last is None or sent is None:
        return False
    span = last - first
    return span < HELD_BACK_NS_PER_TOKEN * after and span < HELD_BACK_SHARE * (first - sent)


def _tokens_after_first_stamp(record: Record) -> int | Withheld:
    if record.choices > 1:
        return Withheld.SEVERAL_CHOICES
    first, last, stamps = record.first_token_ns, record.last_token_ns, record.chunk_ns
    known = known_tokens(record)
    tokens = sum(known) if known is not None else record.completion_tokens
    if tokens is not None and tokens < 2:
        return Withheld.TOO_SHORT
    if first is None or last is None or last - first < NO_STREAM_NS:
        return Withheld.NO_STREAM if tokens is not None or len(stamps) > 1 else Withheld.TOKENS_UNKNOWN
    up_to_first = bisect_right(stamps, first)
    if known is not None:
        return sum(known[up_to_first:]) or Withheld.TOO_SHORT
    visible = visible_tokens(record)
    if visible is None:
        return Withheld.TOKENS_UNKNOWN if record.completion_tokens is None else Withheld.BURSTS
    # More events than tokens: the white space before the first token was no token of its own.
    before = max(1, up_to_first - max(0, len(stamps) - visible))
    return visible - before if visible > before else Withheld.TOO_SHORT


def known_tokens(record: Record) -> list[int] | None:
    """Tokens of each event, where the engine or a tokenizer gave counts that the stream does not disprove."""
    tokens = record.chunk_tokens
    if tokens is None or len(tokens) != len(record.chunk_ns):
        return None
    # Counts that stop after the first event are the total, repeated, and no counts of events.
    return tokens if sum(tokens[1:]) > 0 or len(tokens) == 1 else None


def visible_tokens(record: Record) -> int | None:
    """completion_tokens that the stream's events show one by one; None where events and tokens do not agree.

    Reasoning tokens of the usage are left out where no thought was streamed and only so the numbers agree.
    """
    tokens, events = record.completion_tokens, len(record.chunk_ns)
    if tokens is None:
        return None
    if events_are_tokens(events, tokens):
        return tokens
    if record.reasoning_tokens and not record.reasoning and events_are_tokens(events, tokens - record.reasoning_tokens):
        return tokens - record.reasoning_tokens
    return None


def events_are_tokens(events: int, tokens: int) -> bool:
    """Whether so many events can be so many tokens, one each, within `EVENT_SHARE`."""
    return (tokens - 1) * (1 - EVENT_SHARE) <= events <= tokens * (1 + EVENT_SHARE) + 1


def tokens_per_event(record: Record) -> list[int] | None:
    """Tokens of each event for ITL, stricter than TPOT: one each only where no event can hold two; else None."""
    if (known := known_tokens(record)) is not None:
        return known
    visible = visible_tokens(record)
    return [1] * len(record.chunk_ns) if visible is not None and len(record.chunk_ns) >= visible - 1 else None


def has_gaps(record: Record) -> bool:
    """Whether the time between arrivals says anything: the stamps are in order and the answer was streamed."""
    if record.first_token_ns is None or not in_order(record):
        return False
    return tokens_after_first(record) not in (Withheld.SEVERAL_CHOICES, Withheld.TOO_SHORT, Withheld.NO_STREAM)


def icl_ms(record: Record) -> list[float]:
    """Inter-chunk latency: the gaps between arrivals, in ms. Empty where nothing was streamed (`has_gaps`)."""
    return [gap for gap, _ in _gaps(record.chunk_ns, [1] * len(record.chunk_ns))] if has_gaps(record) else []


def itl_ms(record: Record) -> list[float] | None:
    """Inter-token latency: each gap between arrivals spread over the tokens that it brought, one value per token.

    None where the tokens of each event are unknown.
    """
    tokens = tokens_per_event(record)
    if tokens is None or not has_gaps(record):
        return None
    return [gap / n for gap, n in _gaps(record.chunk_ns, tokens) for _ in range(n)]


def _gaps(stamps: Sequence[int], tokens: Sequence[int]) -> list[tuple[float, int]]:
    """(gap in ms, tokens that it brought, at least 1) of each arrival after the first."""
    gaps: list[tuple[float, int]] = []
    arrival, brought = stamps[0] if stamps else 0, 0
    previous: int | None = None
    for stamp, n in zip(stamps, tokens, strict=True):
        if stamp != arrival:
            if previous is not None:
                gaps.append(((arrival - previous) / 1e6, max(brought, 1)))
            previous, arrival, brought = arrival, stamp, 0
        brought += n
    if previous is not None:
        gaps.append(((arrival - previous) / 1e6, max(brought, 1)))
    return gaps
