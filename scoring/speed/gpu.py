"""GPU figures of a cell from the meter's samples: energy, peak memory, throttling; None where nothing was measured.

A row of gpu.jsonl is one sample: `t_ns` (the client's monotonic clock) and `gpus`, a list with one object per device:
`power_w`, `energy_mj` (a counter), `memory_used_mib`, `throttle` (reasons). Any of them may be null.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from records import JsonObject
from scoring.captures import Capture
from scoring.speed.latency import CellFigures
from scoring.speed.series import thinned

HELD_MIB = 1024.0
"""A GPU that uses less memory than this has no engine on it."""
FEWEST_COVERED = 0.8
"""Least share of a cell's time between its first and last sample for which its energy is given."""


def cell_samples(capture: Capture, rows: Sequence[JsonObject]) -> list[JsonObject]:
    """The samples taken while the cell's measured requests were under way."""
    start, end = capture.asked_span_ns()
    if start is None or end is None:
        return []
    return [row for row in rows if isinstance(row.get("t_ns"), int) and start <= row["t_ns"] <= end]


def add_gpu_figures(figures: CellFigures, samples: Sequence[JsonObject]) -> None:
    """Add joules_per_token and peak_vram_mib to the figures, where the samples have them."""
    if not samples:
        return
    memory = [_total(row, "memory_used_mib") for row in samples]
    known = [value for value in memory if value is not None]
    figures.values["peak_vram_mib"] = max(known) if known else None
    joules = energy_joules(samples)
    good = figures.good
    tokens = good["completion_tokens"].sum(skipna=False)
    if joules and (share := _covered(figures, samples)) >= FEWEST_COVERED:
        # Extrapolates to the time before the first sample and after the last, at the same power.
        joules /= share
    else:
        joules = None
    figures.values["joules_per_token"] = joules / tokens if joules and tokens and tokens > 0 else None
    for name in ("peak_vram_mib", "joules_per_token"):
        figures.counts[name] = len(samples)


def _covered(figures: CellFigures, samples: Sequence[JsonObject]) -> float:
    """The share of the cell's time between the first and the last sample, at most 1."""
    span_ms = float(figures.measured["end_ms"].max() - figures.measured["sent_ms"].min())
    return min(1.0, (samples[-1]["t_ns"] - samples[0]["t_ns"]) / 1e6 / span_ms) if span_ms > 0 else 0.0


def energy_joules(samples: Sequence[JsonObject]) -> float | None:
    """Energy between the first and last sample: the counter's difference, else the integral of power (trapezoids)."""
    counters = [_total(row, "energy_mj") for row in samples]
    readings = [value for value in counters if value is not None]
    if len(readings) >= 2:
        return (readings[-1] - readings[0]) / 1000
    power = [(row["t_ns"] / 1e9, _total(row, "power_w")) for row in samples]
    known = [(t, p) for t, p in power if p is not None]
    if len(known) < 2:
        return None
    t, p = np.array([k[0] for k in known]), np.array([k[1] for k in known])
    return float((np.diff(t) * (p[1:] + p[:-1]) / 2).sum())


def devices_used(rounds: Iterable[Sequence[JsonObject]]) -> int | None:
    """The number of GPUs on which an engine used `HELD_MIB` or more, in any of its rounds; None if unknown."""
    series: dict[int, list[float]] = {}
    for row in itertools.chain.from_iterable(rounds):
        for place, device in enumerate(row.get("gpus") or []):
            if isinstance(used := device.get("memory_used_mib"), int | float):
                series.setdefault(place, []).append(used)
    if not series:
        return None
    held = [max(values) >= HELD_MIB for values in series.values()]
    return sum(held) or None


def throttle_reasons(samples: Sequence[JsonObject]) -> dict[str, int]:
    """The number of samples with each throttle reason."""
    counts: dict[str, int] = {}
    for row in samples:
        for gpu in row.get("gpus") or []:
            for reason in gpu.get("throttle") or []:
                counts[reason] = counts.get(reason, 0) + 1
    return counts


def gpu_series(engine: str, number: int, rows: Sequence[JsonObject]) -> JsonObject | None:
    """{engine, round, t_s, power_w, memory_mib} of one round, thinned; None where nothing was measured."""
    rows = [row for row in rows if isinstance(row.get("t_ns"), int)]
    if not rows:
        return None
    zero = rows[0]["t_ns"]
    t = np.array([(row["t_ns"] - zero) / 1e9 for row in rows])
    series: JsonObject = {"engine": engine, "round": number}
    for name, key in (("power_w", "power_w"), ("memory_mib", "memory_used_mib")):
        values = np.array([np.nan if (v := _total(row, key)) is None else v for row in rows], dtype=float)
        use = ~np.isnan(values)
        times, shown = thinned(t[use], values[use])
        series[name] = {"t_s": times, "values": shown}
    return series


def _total(row: JsonObject, key: str) -> float | None:
    """The sum over the devices; None if any of them does not report it."""
    values: list[Any] = [gpu.get(key) for gpu in row.get("gpus") or []]
    if not values or any(value is None for value in values):
        return None
    return float(sum(values))
