"""Builds the record of a request from its stamped bytes: content, times, and whether it is a valid answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from gevent.event import Event

from load.chat.answer import Answer
from load.chat.decode import decode
from load.chat.json import whole
from load.chat.usage import count_of, detail
from load.http.response import End, Reply
from load.schedule.tickets import Ticket
from records import ErrorKind, Phase, Record
from records.redaction import known_secrets, scrub, scrubbed

_ENDS = {
    End.RESET: (ErrorKind.ABORTED, "the connection was reset"),
    End.CLOSED: (ErrorKind.ABORTED, "the connection was closed before the response was complete"),
    End.SILENCE: (ErrorKind.SILENCE_TIMEOUT, "no byte within the silence timeout"),
    End.TOTAL: (ErrorKind.TOTAL_TIMEOUT, "not complete within the request timeout"),
    End.TOO_LARGE: (ErrorKind.BAD_FRAME, "a response over the size limit"),
    End.CANCELLED: (ErrorKind.CANCELLED, "closed by the client"),
    End.DONE: (ErrorKind.ABORTED, "[DONE] came in the middle of an event"),
}
_STATUSES = {429: ErrorKind.RATE_LIMITED, 503: ErrorKind.BUSY}


@dataclass(frozen=True, slots=True)
class Labels:
    """The fields that all records of one test in one process share."""

    session: str
    """A random prefix that makes the ids of all sessions different."""
    engine: str
    cell: str
    scenario: str
    workload: str
    round: int
    worker: str


@dataclass(slots=True)
class Exchange:
    """One ended attempt at a ticket, with a reply or the reason why there is none."""

    ticket: Ticket
    user: int
    seq: int
    attempt: int
    end_ns: int
    sent_ns: int | None = None
    max_tokens: int | None = None
    reply: Reply | None = None
    failure: tuple[ErrorKind, str] | None = None
    retried: bool = False
    """Whether another attempt at the same ticket follows."""
    kept: Event = field(default_factory=Event)
    """Set once its record is kept."""
    record: Record | None = None


def build_record(exchange: Exchange, labels: Labels, phase: Phase) -> Iterator[Record]:
    """Decode an exchange, yielding its growing record after each piece so that the caller can pause."""
    record = _blank(exchange, labels, phase)
    reply = exchange.reply
    if reply is None:
        assert exchange.failure is not None
        _fail(record, *exchange.failure)
        yield record
        return
    record.connect_ns, record.sent_ns, record.end_ns = reply.connect_ns, reply.sent_ns, reply.end_ns
    reply.finish()
    body = reply.content
    record.http_status = reply.head.status if reply.head else None
    if reply.head is not None and reply.head.status != 200:
        _fail(record, *_status_error(reply, body))
        yield record
        return
    encoding = reply.head.headers.get("content-encoding", "identity").lower() if reply.head else "identity"
    if encoding != "identity":
        _fail(record, ErrorKind.ENCODING, f"the body is encoded ({encoding}) although identity was asked for")
        yield record
        return
    answer = Answer()
    # Only a complete framing proves that the body is complete.
    content_type = reply.head.headers.get("content-type", "") if reply.head else ""
    for answer in decode(body, cut=not reply.framed, content_type=content_type):  # noqa: B007 - the last one is complete
        yield record
    _fill(record, answer)
    if reply.end is End.CANCELLED and not (exchange.failure or answer.error):
        record.status = "cancelled"
        yield record
        return
    failure = exchange.failure or _failure(reply, answer)
    if failure:
        _fail(record, *failure)
    yield record


def hide_secrets(record: Record) -> None:
    """Remove known secrets, which servers may quote, from a record before it is written, counted or shown."""
    if not known_secrets():
        return
    record.text, record.reasoning = scrub(record.text, cut=False), scrub(record.reasoning, cut=False)
    record.refusal, record.tool_calls = scrub(record.refusal, cut=False), scrubbed(record.tool_calls)
    record.notes = scrubbed(record.notes)
    record.error, record.server_timings = scrubbed(record.error), scrubbed(record.server_timings)
    record.system_fingerprint, record.finish_reason = (
        scrubbed(record.system_fingerprint),
        scrubbed(record.finish_reason),
    )


MAX_RETRY_AFTER_S = 60.0
DEFAULT_RETRY_AFTER_S = 1.0


def retry_after_s(reply: Reply, now: datetime | None = None) -> float | None:
    """Seconds to wait after a 429 or 503 (RFC 9110, 10.2.3: seconds or a date), at most 60; None for other replies.

    Without a valid header it is 1.
    """
    reply.unframe()
    if reply.head is None or reply.head.status not in _STATUSES:
        return None
    value = reply.head.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        wait_s = float(value[:9])
    else:
        try:
            at = parsedate_to_datetime(value)
        except ValueError:
            return DEFAULT_RETRY_AFTER_S
        wait_s = (at.replace(tzinfo=at.tzinfo or UTC) - (now or datetime.now(UTC))).total_seconds()
    return min(max(wait_s, 0.0), MAX_RETRY_AFTER_S)


def _failure(reply: Reply, answer: Answer) -> tuple[ErrorKind, str] | None:
    whole = reply.end is End.COMPLETE or answer.done
    # A cut body without events does not show what it was.
    if answer.error and (whole or answer.error[0] is not ErrorKind.NO_FINISH_REASON):
        return answer.error
    if reply.framing_error:
        return ErrorKind.BAD_FRAME, reply.framing_error
    # An engine that sends [DONE] and then drops the connection has given the whole answer.
    if not whole:
        return _ENDS[reply.end]
    return answer.verdict()


def _status_error(reply: Reply, body: list[tuple[int, bytes]]) -> tuple[ErrorKind, str]:
    assert reply.head is not None
    status = reply.head.status
    text = b"".join(data for _, data in body)[:500].decode("utf-8", "replace")
    note = f"; Retry-After {reply.head.headers['retry-after']}" if "retry-after" in reply.head.headers else ""
    location = f" to {reply.head.headers['location'][:100]}, not followed" if "location" in reply.head.headers else ""
    return _STATUSES.get(status, ErrorKind.HTTP_STATUS), f"HTTP {status}{location}{note}: {text}"


def _fill(record: Record, answer: Answer) -> None:
    record.text, record.reasoning = whole("".join(answer.text)), whole("".join(answer.reasoning))
    record.refusal = whole("".join(answer.refusal))
    record.tool_calls = [{key: whole(text) for key, text in call.items()} for call in answer.tool_calls]
    record.chunk_ns, record.chunk_chars = answer.chunk_ns, answer.chunk_chars
    record.first_token_ns, record.first_answer_ns = answer.first_token_ns, answer.first_answer_ns
    record.last_token_ns = answer.chunk_ns[-1] if answer.chunk_ns else None
    record.chunk_tokens = answer.chunk_tokens
    record.chunk_token_source = "engine" if record.chunk_tokens is not None else None
    usage = answer.usage or {}
    # A prompt has at least one token, so 0 means that the server does not count.
    record.prompt_tokens = count_of(usage.get("prompt_tokens")) or None
    record.completion_tokens, record.reasoning_tokens = answer.completion_tokens, answer.reasoning_tokens
    record.token_source = "usage" if record.completion_tokens is not None else None
    record.cached_tokens = detail(usage, "prompt_tokens_details", "cached_tokens")
    if record.cached_tokens is None and answer.timings:
        record.cached_tokens = count_of(answer.timings.get("cache_n"))
    record.finish_reason, record.done, record.choices = answer.finish_reason, answer.done, answer.choices
    record.server_timings, record.system_fingerprint = answer.timings, answer.fingerprint
    record.notes = answer.notes


def _fail(record: Record, kind: ErrorKind, message: str) -> None:
    record.status = "error"
    record.error = {"kind": str(kind), "message": message}


def _blank(exchange: Exchange, labels: Labels, phase: Phase) -> Record:
    ticket = exchange.ticket
    return Record(
        id=f"{labels.session}-{exchange.user}-{exchange.seq}-{exchange.attempt}",
        engine=labels.engine,
        cell=labels.cell,
        round=labels.round,
        worker=labels.worker,
        user=exchange.user,
        seq=exchange.seq,
        attempt=exchange.attempt,
        workload=labels.workload,
        prompt_id=ticket.prompt.prompt_id,
        prompt_sha256=ticket.prompt.sha256,
        sample=ticket.sample,
        phase=str(phase),
        connect_ns=None,
        scheduled_ns=ticket.due_ns,
        sent_ns=exchange.sent_ns,
        end_ns=exchange.end_ns,
        max_tokens=exchange.max_tokens,
        conversation=ticket.place.conversation if ticket.place else None,
        turn=ticket.place.turn if ticket.place else None,
        turns=ticket.place.turns if ticket.place else None,
    )
