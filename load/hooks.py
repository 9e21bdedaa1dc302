"""The event hooks of a streaming request, on `environment.events` beside Locust's own.

- `first_token(record)`: for a request with at least one token.
- `inter_token(record, gaps_ms)`: for a request with at least two deltas; the milliseconds between their arrivals.
- `stream_finished(record)`: for every request, including failed ones, after the other two.

They fire once per request, after its stream was closed and decoded, so a slow listener affects no stamp. Locust's
`request` event fires once per request too. Time to first token and inter-token gaps do not fire it: they are not
requests, and would dilute its fail ratio and mix its percentiles.
"""

from __future__ import annotations

from typing import Any

from locust.event import EventHook, Events

from records import Record

HOOKS = ("first_token", "inter_token", "stream_finished")


def install(events: Events) -> None:
    """Add the three hooks to an environment's events, unless they exist already."""
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
    """A failed request in Locust's failure table: its error kind and message."""

    def __init__(self, error: dict[str, Any] | None) -> None:
        super().__init__(f"{error['kind']}: {error['message']}"[:300] if error else "failed")
