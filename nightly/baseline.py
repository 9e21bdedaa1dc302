"""What a night is compared with: a pinned run, the last good one, a window of good ones, or another engine tonight."""

from __future__ import annotations

from dataclasses import dataclass

from nightly.gate_rules import Choice
from nightly.history.store import History, RunInfo
from nightly.history.trends import breaks_between


@dataclass(frozen=True, slots=True)
class Baseline:
    """The stored runs that one engine's cell is held against, newest first; empty with the reason why."""

    run_ids: tuple[str, ...]
    why_none: str = ""


def stored_baseline(history: History, choice: Choice, tonight: RunInfo, engine: str, cell: str | None) -> Baseline:
    """Find the baseline of one cell among earlier runs of the same profile and of the same series.

    A pin also ends what came before it: `last-good` and `window` look no further back than the newest pin, which is
    how a slower level that is accepted becomes the new normal.
    """
    earlier = [
        run
        for run in reversed(history.runs(profile=tonight.profile, good=True))
        if (run.created_utc, run.run_id) < (tonight.created_utc, tonight.run_id)
        and engine in history.engines(run.run_id)
    ]
    pins = [place for place, run in enumerate(earlier) if run.pinned_utc is not None]
    if pins:
        newest = max(pins, key=lambda place: earlier[place].pinned_utc or "")
        earlier = [earlier[newest]] if choice.mode == "pinned" else earlier[: newest + 1]
    elif choice.mode == "pinned":
        return Baseline((), "no run of this profile is pinned yet: `history pin RUN`")
    if not earlier:
        return Baseline((), "no earlier good run of this engine under this profile; tonight begins its series")
    found: list[str] = []
    why = ""
    for run in earlier:
        broken = breaks_between(history, run, tonight, engine, cell)
        if broken:
            why = why or f"series broken since {run.run_id}: {'; '.join(broken)}; tonight begins a new one"
            continue
        found.append(run.run_id)
        if len(found) == choice.nights:
            break
    return Baseline(tuple(found), "" if found else why)
