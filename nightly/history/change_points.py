"""Finds change points of a series by E-divisive: the nights at which the distribution of a figure changed.

Energy statistics (Matteson and James, "A Nonparametric Approach for Multiple Change Point Analysis of Multivariate
Data", 2014, arXiv:1306.4933), as Apache Otava and MongoDB use them for the same purpose: no assumption of normality,
no given number of changes, works from about ten points. For a start s and every split t < end k the statistic

    Q(s, t, k) = (t-s)(k-t)/(k-s) * (2 E|X-Y| - E|X-X'| - E|Y-Y'|)

compares the points before the split with those after it, up to k; the largest Q over all (t, k) is a candidate. Its
p-value is the share of random permutations of the segment with a Q at least as large (the original test; Otava's later
t-test is faster but assumes normality). Segments are split again until no split is significant.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LONGEST = 400
"""Only this many of the newest points are searched: the cost of a permutation grows with the square."""

Floats = NDArray[np.float64]


def change_points(
    values: Sequence[float], *, alpha: float = 0.01, permutations: int = 499, shortest: int = 3, seed: int = 1
) -> list[int]:
    """The indices at which a new level begins, in order.

    Args:
        values: one finite figure per night, oldest first.
        alpha: largest p-value of a change point, for each segment that is searched.
        permutations: number of random orders with which a candidate is compared; p is at least 1 / (permutations + 1).
        shortest: the least number of points on each side of a change.
        seed: seed of the permutations, so the same series always gives the same result.

    Returns:
        Indices into `values`; the first value of each new level. Empty if the series is too short.
    """
    offset = max(0, len(values) - LONGEST)
    series = np.asarray(values[offset:], dtype=np.float64)
    generator = np.random.default_rng(seed)
    changes: list[int] = []
    waiting = [(0, len(series))]
    while waiting:
        start, end = waiting.pop()
        segment = series[start:end]
        if len(segment) < 2 * shortest or np.ptp(segment) == 0:
            continue
        strength, split = _strongest(segment, shortest)
        beaten = 0
        for _ in range(permutations):
            beaten += _strongest(generator.permutation(segment), shortest)[0] >= strength
            if beaten + 1 > alpha * (permutations + 1):
                break  # It can no longer become significant.
        if beaten + 1 <= alpha * (permutations + 1):
            changes.append(start + split)
            waiting += [(start, start + split), (start + split, end)]
    return [offset + index for index in sorted(changes)]


def _strongest(segment: Floats, shortest: int) -> tuple[float, int]:
    """The largest Q of a segment and its split t, over all t and all ends k."""
    n = len(segment)
    distances = np.abs(segment[:, None] - segment[None, :])
    sums = np.zeros((n + 1, n + 1))
    sums[1:, 1:] = distances.cumsum(0).cumsum(1)
    to_diagonal = np.diag(sums)
    splits = np.arange(shortest, n - shortest + 1)
    ends = np.arange(2 * shortest, n + 1)
    t, k = splits[:, None], ends[None, :]
    left, right = t.astype(float), (k - t).astype(float)
    # The symmetric matrix counts each pair twice, the block between the two sides counts it once.
    within_left = to_diagonal[t]
    across = sums[t, k] - within_left
    within_right = to_diagonal[k] - 2 * across - within_left
    with np.errstate(divide="ignore", invalid="ignore"):
        energy = 2 * across / (left * right) - within_left / (left * (left - 1)) - within_right / (right * (right - 1))
        q = np.where(right >= shortest, left * right / (left + right) * energy, -np.inf)
    best = int(np.argmax(q))
    return float(q.flat[best]), int(splits[best // len(ends)])
