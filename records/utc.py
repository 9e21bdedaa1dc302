"""Wall-clock times as text, always UTC. They are for people and for names; nothing is measured with them."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now(*, milliseconds: bool = False) -> str:
    """The wall clock in ISO 8601: `2026-12-01T08:30:00Z`, with `milliseconds` `2026-12-01T08:30:00.250Z`."""
    return utc_text(datetime.now(UTC), milliseconds=milliseconds)


def utc_text(moment: datetime, *, milliseconds: bool = False) -> str:
    """A moment of any time zone in the form of `utc_now`."""
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds" if milliseconds else "seconds")
    return text.removesuffix("+00:00") + "Z"


def utc_stamp() -> str:
    """The wall clock for a file name: `20261201T083000Z`. Sorted names are in the order of time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


def utc_for_run_id() -> str:
    """The wall clock as the end of a run's id: `20261201-083000`."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}"
