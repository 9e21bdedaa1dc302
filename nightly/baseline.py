"""Chooses the baseline of a figure: the earlier nights of its series with which tonight may be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nightly.gate_rules import Choice
from nightly.history.series import breaks_between
from nightly.history.store import GateRow, History, RunInfo

ESTABLISHED = 7
"""An improvement that lasts this many nights becomes the level of the baseline."""

FAILING = ("regression", "missing", "suspected")
"""Verdicts that fail a night."""

_NO_NEWS = ("missing", "suspected", "not judged")
"""Verdicts that do not show whether an open regression is fixed."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """The earlier nights of one engine's cell with which tonight may be compared, oldest first.

    `why_none` says why there is none. `broken` is true if tonight begins a new series.
    """

    nights: tuple[RunInfo, ...] = ()
    gates: Mapping[tuple[str, str], GateRow] = field(default_factory=dict)
    """(run id, metric) -> that night's decision on the figure."""
    why_none: str = ""
    broken: bool = False


def earlier_nights(history: History, choice: Choice, tonight: RunInfo, engine: str, cell: str) -> Earlier:
    """Find the earlier nights of the same profile, series and engine.

    Nights before the newest pin are ignored. So pinning a night on a slower level accepts that level.
    """
    before = [
        run
        for run in history.runs(profile=tonight.profile, where="status = 'complete' AND kind != 'confirmation'")
        if run.place < tonight.place and engine in history.engines(run.run_id)
    ]
    pins = [place for place, run in enumerate(before) if run.pinned_utc is not None]
    if pins:
        before = before[max(pins, key=lambda place: before[place].pinned_utc or "") :]
    elif choice.mode == "pinned":
        return Earlier(why_none="no run of this profile is pinned yet: `history pin RUN`")
    if not before:
        return Earlier(why_none="no earlier night of this engine under this profile; tonight begins its series")
    comparable, why = [], ""
    for run in reversed(before):
        changes = breaks_between(history, run, tonight, engine, cell)
        if changes:
            why = why or f"series broken since {run.run_id}: {'; '.join(changes)}; tonight begins a new one"
        else:
            comparable.append(run)
    comparable.reverse()
    gates = {
        (run.run_id, gate.metric): gate for run in comparable for gate in history.gates_of(run.run_id, engine, cell)
    }
    return Earlier(tuple(comparable), gates, "" if comparable else why, not comparable)


@dataclass(frozen=True, slots=True)
class FigureHistory:
    """The earlier nights, as one figure sees them.

    `verdicts` has the gate's row of each night, None where it made no decision. `joins` marks the nights that may serve
    as a baseline. `counts` marks the nights that count as evidence at all: not outliers, and not the nights of a
    regression that was fixed since. `open_since` is the index of the first night of a confirmed regression that is
    neither fixed nor pinned.
    """

    nights: tuple[RunInfo, ...]
    verdicts: tuple[GateRow | None, ...]
    joins: tuple[bool, ...]
    counts: tuple[bool, ...]
    open_since: int | None


def figure_history(earlier: Earlier, metric: str) -> FigureHistory:
    """Derive from the nights' verdicts which nights may serve as a baseline for one figure, and what is still open.

    A pinned night always joins. A night that looked slower never joins, even if its second measurement cleared it,
    because its own figures are outliers. Nights on a new level that passed before it was noticed do not join either.
    """
    nights = earlier.nights
    verdicts = tuple(earlier.gates.get((run.run_id, metric)) for run in nights)
    places = {run.run_id: place for place, run in enumerate(nights)}
    improved = _improved_stretches(verdicts, places)
    established = [(first, end) for first, end in improved if end - first >= ESTABLISHED]
    start = established[-1][0] if established else 0
    open_since = _open_since(nights, verdicts, places, start)
    outliers = {place for place, run in enumerate(nights) if run.requests_failed}
    outside = set(range(start))
    for place, gate in enumerate(verdicts):
        if gate is not None and gate.verdict == "regression":
            outliers.update(range(places.get(gate.since or "", place), place + 1))
        elif gate is not None and gate.verdict == "unconfirmed":
            outliers.add(place)
        elif gate is not None and gate.verdict in FAILING:
            outside.add(place)
    for first, end in improved:
        if first > start or not established:
            outside.update(range(first, end))
    pinned = {place for place, run in enumerate(nights) if run.pinned_utc is not None}
    counts = tuple(place in pinned or place not in outliers for place in range(len(nights)))
    joins = tuple(place in pinned or place not in outliers | outside for place in range(len(nights)))
    return FigureHistory(nights, verdicts, joins, counts, open_since)


def _improved_stretches(verdicts: Sequence[GateRow | None], places: Mapping[str, int]) -> list[tuple[int, int]]:
    """(first, end) of each sequence of improved nights, starting with the first night on the new level."""
    stretches: list[tuple[int, int]] = []
    first = None
    for place, gate in enumerate([*verdicts, None]):
        if gate is not None and gate.verdict == "improved":
            first = places.get(gate.since or "", place) if first is None else first
        elif first is not None:
            stretches.append((first, place))
            first = None
    return stretches


def _open_since(
    nights: Sequence[RunInfo], verdicts: Sequence[GateRow | None], places: Mapping[str, int], start: int
) -> int | None:
    judged = [gate for gate in verdicts if gate is not None and gate.verdict not in _NO_NEWS]
    if not judged or judged[-1].verdict != "regression":
        return None
    since = places.get(judged[-1].since or "")
    # Pinning a night accepts its level.
    if since is None or since < start or any(run.pinned_utc for run in nights[since:]):
        return None
    return since
