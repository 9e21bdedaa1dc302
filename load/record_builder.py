"""From the stamped bytes of a request to its record: what was said, when, and whether it is an answer at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from load.chat.answer import Answer
from load.chat.decode import decode
from load.chat.json import whole
from load.http.response import End, Reply
from load.schedule.tickets import Ticket
from records import ErrorKind, Phase, Record
from records.redaction import scrub, scrubbed

_ENDS = {
    End.RESET: (ErrorKind.ABORTED, "the connection was reset"),
    End.CLOSED: (ErrorKind.ABORTED, "the connection was closed before the response was complete"),
    End.SILENCE: (ErrorKind.SILENCE_TIMEOUT, "no byte within the silence timeout"),
    End.TOTAL: (ErrorKind.TOTAL_TIMEOUT, "not complete within the request timeout"),
    End.TOO_LARGE: (ErrorKind.BAD_FRAME, "a response over the size limit"),
}
_STATUSES = {429: ErrorKind.RATE_LIMITED, 503: ErrorKind.BUSY}


@dataclass(frozen=True, slots=True)
class Labels:
    """What all records of one test in one process share."""

    session: str
    """A random prefix that keeps the ids of all sessions apart."""
    engine: str
    cell: str
    scenario: str
    workload: str
    round: int
    worker: str


@dataclass(slots=True)
class Exchange:
    """One attempt at one ticket, as it ended: with a reply, or with the reason why there is none."""

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


def understand(exchange: Exchange, labels: Labels, phase: Phase) -> Iterator[Record]:
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
        _fail(record, *_refused(reply, body))
        yield record
        return
    encoding = reply.head.headers.get("content-encoding", "identity").lower() if reply.head else "identity"
    if encoding != "identity":
        _fail(record, ErrorKind.ENCODING, f"the body is encoded ({encoding}) although identity was asked for")
        yield record
        return
    answer = Answer()
    # Only a framed body that is complete is known to be whole.
    for answer in decode(body, cut=not reply.framed):  # noqa: B007 - the last one is whole
        yield record
    answer.drop_empty_thought()
    _fill(record, answer)
    failure = exchange.failure or _failure(reply, answer)
    if failure:
        _fail(record, *failure)
    yield record


def hide_secrets(record: Record) -> None:
    """Scrub a record of the known secrets, which servers quote: before it is written, counted or shown."""
    record.text, record.reasoning = scrub(record.text, cut=False), scrub(record.reasoning, cut=False)
    record.error, record.server_timings = scrubbed(record.error), scrubbed(record.server_timings)
    record.system_fingerprint, record.finish_reason = (
        scrubbed(record.system_fingerprint),
        scrubbed(record.finish_reason),
    )


def retry_after_s(reply: Reply) -> float | None:
    """How long a 429 or 503 asks to wait; None for any other reply, 1 s where it names no seconds."""
    reply.unframe()
    if reply.head is None or reply.head.status not in _STATUSES:
        return None
    try:
        return min(max(float(reply.head.headers.get("retry-after", "1")), 0.0), 60.0)
    except ValueError:
        return 1.0


def _failure(reply: Reply, answer: Answer) -> tuple[ErrorKind, str] | None:
    if answer.error:
        return answer.error
    if reply.framing_error:
        return ErrorKind.BAD_FRAME, reply.framing_error
    # An engine that says [DONE] and then drops the connection has given the whole answer.
    if reply.end is not End.COMPLETE and not answer.done:
        return _ENDS[reply.end]
    return answer.verdict()


def _refused(reply: Reply, body: list[tuple[int, bytes]]) -> tuple[ErrorKind, str]:
    assert reply.head is not None
    status = reply.head.status
    text = b"".join(data for _, data in body)[:500].decode("utf-8", "replace")
    note = f"; Retry-After {reply.head.headers['retry-after']}" if "retry-after" in reply.head.headers else ""
    location = f" to {reply.head.headers['location'][:100]}, not followed" if "location" in reply.head.headers else ""
    return _STATUSES.get(status, ErrorKind.HTTP_STATUS), f"HTTP {status}{location}{note}: {text}"


def _fill(record: Record, answer: Answer) -> None:
    record.text, record.reasoning = whole("".join(answer.text)), whole("".join(answer.reasoning))
    record.chunk_ns, record.chunk_chars = answer.chunk_ns, answer.chunk_chars
    record.first_answer_ns = answer.first_answer_ns
    if answer.chunk_ns:
        record.first_token_ns, record.last_token_ns = answer.chunk_ns[0], answer.chunk_ns[-1]
    told = [tokens for tokens in answer.chunk_tokens if tokens is not None]
    if told and len(told) == len(answer.chunk_tokens):
        record.chunk_tokens, record.chunk_token_source = told, "engine"
    usage: dict[str, Any] = answer.usage or {}
    record.prompt_tokens = _count(usage.get("prompt_tokens"))
    record.completion_tokens = _count(usage.get("completion_tokens"))
    record.token_source = "usage" if record.completion_tokens is not None else None
    details = usage.get("prompt_tokens_details")
    record.cached_tokens = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    if record.cached_tokens is None and answer.timings:
        record.cached_tokens = _count(answer.timings.get("cache_n"))
    record.finish_reason, record.done = answer.finish_reason, answer.done
    record.server_timings, record.system_fingerprint = answer.timings, answer.fingerprint


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


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
    )
