"""Finds the steady window: from the first to the last instant with a worker's whole concurrency in flight.

The number in flight rises at a record's `sent` and falls at its `end`. A user's pause of up to `GAP_TOLERANCE_MS`
between two requests counts as in flight: the client needs it to prepare the next request. So does the think time of a
user between two turns: what is asked for is so many conversations at once. Everything is computed per worker and
summed, because clocks of different hosts are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from records import JsonObject
from scoring.captures import Capture

Floats = NDArray[np.float64]

GAP_TOLERANCE_MS = 20.0
PAUSE_MS = 2000.0
"""A longer gap with nothing in flight splits a closed loop in two: it was resumed, or the client was stopped."""


@dataclass(frozen=True, slots=True)
class Window:
    """One stretch of steady load of one worker, in ms on that worker's own clock."""

    worker: str
    start_ms: float
    end_ms: float

    @property
    def length_s(self) -> float:
        return (self.end_ms - self.start_ms) / 1000


@dataclass(frozen=True, slots=True)
class Steady:
    """A cell's concurrency, as its records show it."""

    asked: int | None
    """The requested number in flight; None for open-loop load, which asks for a rate."""
    reached: int
    """The most that were in flight at once, summed over workers."""
    windows: tuple[Window, ...]
    at_asked: float | None
    """Share of time with the whole requested concurrency in flight, from a worker's first to its last send (or to the
    end of its window). Until then there is always another request to send."""
    mean_in_flight: float | None
    """Mean in flight over the windows, summed over workers; pauses between requests are not counted as in flight."""
    pauses: tuple[tuple[str, float], ...]
    """(worker, ms) of each stretch of a closed loop with nothing in flight for longer than `PAUSE_MS`."""

    @property
    def pauses_ms(self) -> tuple[float, ...]:
        return tuple(length for _, length in self.pauses)

    def paused_s(self, worker: str) -> float:
        """Total length of a worker's pauses in seconds; this time is not charged to the engine."""
        return sum(length for of_worker, length in self.pauses if of_worker == worker) / 1000

    @property
    def length_s(self) -> float | None:
        """Length of the steady load in seconds, averaged over workers; None without a window."""
        workers = {window.worker for window in self.windows}
        return sum(window.length_s for window in self.windows) / len(workers) if workers else None

    def of(self, worker: str) -> list[Window]:
        return [window for window in self.windows if window.worker == worker]


def in_flight_curve(requests: pd.DataFrame, tolerance_ms: float = 0.0) -> tuple[Floats, NDArray[np.int64]]:
    """The number in flight of one worker: (times in ms, number from that time on), two arrays of the same length.

    Requests that were never sent do not count. An end and a send at the same time leave the number unchanged.
    """
    sent = requests[requests["sent_ms"].notna()].sort_values(["user", "sent_ms"])
    starts = sent["sent_ms"].to_numpy(float)
    ends = np.maximum(sent["end_ms"].to_numpy(float), starts)
    if tolerance_ms and len(starts) > 1:
        same_user = sent["user"].to_numpy()[1:] == sent["user"].to_numpy()[:-1]
        gap = starts[1:] - ends[:-1]
        talk = sent["conversation"].to_numpy(object)
        same_talk = (talk[1:] == talk[:-1]) & sent["conversation"].notna().to_numpy()[1:]
        pauses = same_user & (gap >= 0) & ((gap <= tolerance_ms) | same_talk)
        ends[:-1] = np.where(pauses, starts[1:], ends[:-1])
    times = np.concatenate([starts, ends])
    steps = np.concatenate([np.ones(len(starts), np.int64), -np.ones(len(ends), np.int64)])
    instants, where = np.unique(times, return_inverse=True)
    return instants, np.cumsum(np.bincount(where, weights=steps, minlength=len(instants)).astype(np.int64))


def find_steady(capture: Capture) -> Steady:
    """Find the steady windows of a cell's measured load.

    Open-loop load, steps and ramps hold no constant concurrency: their window runs from a worker's first to its last
    send.
    """
    measured = capture.measured
    closed = capture.asked.get("shape") in (None, "closed") and not capture.asked.get("rate")
    shares = None if not closed else _asked_by_worker(capture.asked, capture.scenario, measured)
    windows: list[Window] = []
    pauses: list[tuple[str, float]] = []
    reached = 0
    at_asked_ms = required_ms = area_ms = 0.0
    for worker, mine in measured.groupby("worker", sort=True):
        times, number = in_flight_curve(mine, GAP_TOLERANCE_MS)
        if not len(times):
            continue
        reached += int(number.max())
        if shares is None:
            last = float(mine["sent_ms"].max())
            own_windows = [Window(str(worker), float(times[0]), last)] if last > times[0] else []
        else:
            wanted = shares.get(str(worker), 0)
            own_windows, idle = _closed_windows(str(worker), times, number, wanted)
            for span in _required_spans(
                str(worker), times, number, own_windows, mine["sent_ms"].dropna().to_numpy(float)
            ):
                at_asked_ms += _inside(times, number >= wanted, span)
                required_ms += span.length_s * 1000
            pauses += [(str(worker), length) for length in idle]
        windows += own_windows
        curve = in_flight_curve(mine)
        area_ms += sum(_inside(*curve, window) for window in own_windows)
    total_ms = sum(window.length_s for window in windows) * 1000
    workers = len({window.worker for window in windows})
    return Steady(
        asked=None if shares is None else sum(shares.values()),
        reached=reached,
        windows=tuple(windows),
        at_asked=at_asked_ms / required_ms if total_ms and required_ms else None,
        mean_in_flight=area_ms / total_ms * workers if total_ms else None,
        pauses=tuple(pauses),
    )


def _asked_by_worker(asked: JsonObject, scenario: JsonObject, measured: pd.DataFrame) -> dict[str, int]:
    """The requested number in flight per worker: all users for a single worker, else its recorded share.

    Where the shares are not recorded, or do not add up, the users seen in each worker's records.
    """
    seen = {str(worker): int(users) for worker, users in measured.groupby("worker")["user"].nunique().items()}
    users = asked.get("users")
    if len(seen) == 1 and isinstance(users, int) and users > 0:
        return dict.fromkeys(seen, users)
    recorded = {str(w.get("worker")): (w.get("asked") or {}).get("users") for w in scenario.get("workers") or []}
    shares = {worker: recorded.get(worker) or count for worker, count in seen.items()}
    return shares if sum(shares.values()) == users else seen


def _closed_windows(
    worker: str, times: Floats, number: NDArray[np.int64], wanted: int
) -> tuple[list[Window], list[float]]:
    """(windows, pauses): first to last instant with `wanted` in flight per stretch, and the pauses' lengths in ms."""
    windows = []
    for first, last in _stretches(times, number):
        full = np.flatnonzero(number[first : last + 1] >= wanted) + first
        if len(full) and full[-1] + 1 < len(times):
            windows.append(Window(worker, float(times[full[0]]), float(times[full[-1] + 1])))
    pauses = [float(times[last + 1] - times[last]) for _, last in _stretches(times, number)[:-1]]
    return windows, pauses


def _stretches(times: Floats, number: NDArray[np.int64]) -> list[tuple[int, int]]:
    """(first, last) instant of each stretch of load between two pauses."""
    lasts = np.diff(times, append=times[-1])
    pause = np.flatnonzero((number == 0) & (lasts > PAUSE_MS))
    return list(zip([0, *(pause + 1)], [*pause, len(times) - 1], strict=True))


def _required_spans(
    worker: str, times: Floats, number: NDArray[np.int64], windows: list[Window], sent: Floats
) -> list[Window]:
    """The spans in which the whole concurrency is required: first to last send of each stretch, or its window's end."""
    spans = []
    for first, last in _stretches(times, number):
        start, end = float(times[first]), float(times[last])
        until = [sent[(sent >= start) & (sent <= end)].max(), *(w.end_ms for w in windows if start <= w.end_ms <= end)]
        spans.append(Window(worker, start, float(max(until))))
    return spans


def _inside(times: Floats, number: NDArray[np.int64] | NDArray[np.bool_], window: Window) -> float:
    """The integral in ms of a step curve (`number` from each of `times` on) over a window."""
    edges = np.clip(np.append(times, times[-1]), window.start_ms, window.end_ms)
    return float((np.diff(edges) * number).sum())
