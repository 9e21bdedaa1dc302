"""Scales of the charts: map values to pixels, choose ticks, and thin curves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reporting.format import figure

MAX_POINTS = 2000


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values low..high to pixels start..end, linearly or logarithmically."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self, about: int = 5) -> list[float]:
        if not self.log:
            return [tick for tick in nice_ticks(self.low, self.high, about) if self.low <= tick <= self.high * 1.0001]
        found: list[float] = []
        for steps in ((1, 2, 5), (1, 3), (1,)):
            first = math.floor(math.log10(self.low))
            last = math.ceil(math.log10(self.high))
            found = [s * 10.0**e for e in range(first, last + 1) for s in steps]
            found = [tick for tick in found if self.low * 0.999 <= tick <= self.high * 1.001]
            if len(found) <= about + 1:
                return found
        return found

    @property
    def data(self) -> str:
        return f"{self.low!r} {self.high!r} {self.start} {self.end} {'log' if self.log else 'linear'}"


def nice_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten that cover low..high."""
    if high <= low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if raw <= power * m * 1.0001)
    first, last = math.floor(low / step), math.ceil(high / step - 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def linear(values: Iterable[float], start: float, end: float, *, zero: bool = True, about: int = 5) -> Scale:
    """A linear scale with round numbers at its ends; it starts at zero unless `zero` is False."""
    known = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = (0.0 if zero else min(known)), max(known)
    if high <= low:
        high = low + (abs(low) or 1.0)
    ticks = nice_ticks(low, high, about)
    return Scale(ticks[0], ticks[-1], start, end)


def fitting(values: Iterable[float], start: float, end: float) -> Scale:
    """A logarithmic scale if the values span more than a factor of eight, else a linear one with a small margin."""
    known = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if low > 0 and high / low > 8:
        return Scale(low / 1.08, high * 1.08, start, end, log=True)
    air = (high - low) * 0.04 or abs(high) * 0.02 or 1.0
    return Scale(max(0.0, low - air) if low >= 0 else low - air, high + air, start, end)


def thin(points: Sequence[tuple[float, float]], limit: int = MAX_POINTS) -> list[tuple[float, float]]:
    """Evenly chosen points, including the first and last."""
    if len(points) <= limit:
        return list(points)
    step = (len(points) - 1) / (limit - 1)
    return [points[round(i * step)] for i in range(limit)]


def tick_label(value: float) -> str:
    """A tick label without trailing zeros: 0, 0.5, 20, 1,500."""
    text = figure(value, 6)
    return text.rstrip("0").rstrip(".") if "." in text else text
