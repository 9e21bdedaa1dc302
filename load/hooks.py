"""The event hooks of a streaming request, on `environment.events` beside Locust's own.

- `first_token(record)`: for a request that brought at least one token.
- `inter_token(record, gaps_ms)`: for one that brought at least two deltas; the milliseconds between their arrivals.
- `stream_finished(record)`: for every request, failed ones too, after the other two.

They fire once per request, after its stream has closed and was decoded, so a slow listener moves no stamp. Locust's
`request` event fires once per request too. Time to first token and inter-token gaps do not fire it: they are not
requests, and would dilute its fail ratio and mix its percentiles.
"""

from __future__ import annotations

from typing import Any

from locust.event import EventHook, Events

from records import Record

HOOKS = ("first_token", "inter_token", "stream_finished")


def install(events: Events) -> None:
    """Give an environment's events the three hooks; those that are there already are left alone."""
    for name in HOOKS:
        if not hasattr(events, name):
            setattr(events, name, EventHook())  # type: ignore[no-untyped-call]


def fire_stream(events: Any, record: Record) -> None:
    """Fire the three hooks of a finished request."""
    if record.first_token_ns is not None:
        events.first_token.fire(record=record)
        if len(record.chunk_ns) > 1 and events.inter_token._handlers:
            gaps = [(b - a) / 1e6 for a, b in zip(record.chunk_ns, record.chunk_ns[1:], strict=False)]
            events.inter_token.fire(record=record, gaps_ms=gaps)
    events.stream_finished.fire(record=record)


def fire(events: Any, record: Record) -> None:
    """Fire the three hooks and Locust's own `request` event."""
    fire_stream(events, record)
    end = record.last_token_ns if record.ok and record.last_token_ns else record.end_ns
    events.request.fire(
        request_type="POST",
        name=record.cell,
        response_time=(end - (record.sent_ns or end)) / 1e6,
        response_length=len(record.text) + len(record.reasoning),
        exception=RequestFailedError(record.error) if record.failed else None,
        context={},
    )


class RequestFailedError(Exception):
    """What Locust's failure table shows of a failed request: its kind, and the message that goes with it."""

    def __init__(self, error: dict[str, Any] | None) -> None:
        super().__init__(f"{error['kind']}: {error['message']}"[:300] if error else "failed")
