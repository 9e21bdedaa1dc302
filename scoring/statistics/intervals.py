"""Intervals and tests, each with its source. Pure; what they assume is in docs/methodology.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]

BOOTSTRAP_DRAWS = 2000
EXACT_BOOTSTRAP_FROM = 500
"""From this many values on nothing is drawn value by value: see `bootstrap_quantile` and `bootstrap_mean`."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def within(self, low: float, high: float) -> bool:
        return low <= self.low and self.high <= high

    def as_list(self) -> list[float]:
        return [self.low, self.high]


def z_of(confidence: float) -> float:
    """The two-sided normal quantile: 1.96 for 0.95."""
    return float(stats.norm.ppf(0.5 + confidence / 2))


def wilson(successes: float, n: float, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion (Wilson 1927). `n` may be an effective number.

    Raises:
        ValueError: n is not positive, or successes not in 0..n.
    """
    if n <= 0 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    z, p = z_of(confidence), successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(low, high)


def mcnemar_p(only_candidate: int, only_baseline: int) -> float:
    """Exact two-sided McNemar: a binomial test of the discordant problems against one half; 1.0 where none is."""
    discordant = only_candidate + only_baseline
    if discordant == 0:
        return 1.0
    return min(1.0, float(2 * stats.binom.cdf(min(only_candidate, only_baseline), discordant, 0.5)))


def paired_difference(only_candidate: int, only_baseline: int, n: int, confidence: float = 0.95) -> Interval:
    """Tango's score interval of the difference of paired proportions, candidate - baseline (Tango 1998, Stat. Med. 17).

    The interval holds every difference d that the score test with the restricted maximum-likelihood estimate of the
    discordant probability does not reject, so it is consistent with the score McNemar test and keeps its coverage
    at n = 30 and at accuracies near 0 and 1 (benchmarks/coverage.py).

    Args:
        only_candidate: problems that only the candidate got right.
        only_baseline: problems that only the baseline got right.
        n: all problems asked of both.
        confidence: of the interval, two-sided.

    Raises:
        ValueError: n is not positive, or the discordant problems exceed it.
    """
    if n <= 0 or min(only_candidate, only_baseline) < 0 or only_candidate + only_baseline > n:
        raise ValueError(f"{only_candidate} and {only_baseline} discordant problems of {n}")
    z = z_of(confidence)
    observed = (only_candidate - only_baseline) / n

    def score(d: float) -> float:
        return _tango_score(only_candidate, only_baseline, n, d)

    # The score falls as d grows: the lower end is where it is z, the upper where it is -z.
    low = -1.0 if score(-1.0) <= z else _falling_root(score, z, -1.0, observed)
    high = 1.0 if score(1.0) >= -z else _falling_root(score, -z, observed, 1.0)
    return Interval(low, high)


def _tango_score(b: int, c: int, n: int, d: float) -> float:
    """(b - c - n d) over its standard error with q, the probability of c, estimated under the difference d."""
    numerator = b - c - n * d
    linear = -b - c + (2 * n - b + c) * d
    root = math.sqrt(max(0.0, linear * linear + 8 * n * c * d * (1 - d)))
    q = (root - linear) / (4 * n)
    variance = n * (2 * q + d * (1 - d))
    if variance <= 1e-12:
        return 0.0 if abs(numerator) < 1e-9 else math.copysign(math.inf, numerator)
    return numerator / math.sqrt(variance)


def _falling_root(function: Callable[[float], float], level: float, low: float, high: float) -> float:
    for _ in range(60):
        middle = (low + high) / 2
        if function(middle) > level:
            low = middle
        else:
            high = middle
    return (low + high) / 2


EQUIVALENCE_CONFIDENCE = 0.90
"""Two one-sided tests at 5% each are the 90% interval inside the margin (Schuirmann 1987)."""

_POWER_Z = z_of(EQUIVALENCE_CONFIDENCE) + float(stats.norm.ppf(0.9))
"""For an equivalence claim at 5% a side that succeeds in 80% where nothing differs: z(0.95) + z(1 - 0.2 / 2)."""


def discordance(only_candidate: int, only_baseline: int, n: int) -> float:
    """The estimated share of discordant problems, never 0: none of 30 does not mean that there are none."""
    return (only_candidate + only_baseline + 1) / (n + 2)


def needed_n(share_discordant: float, margin: float) -> int:
    """How many problems an equivalence claim needs: it then succeeds in 80% of cases where nothing differs."""
    return math.ceil(_POWER_Z**2 * share_discordant / margin**2)


def settled_margin(share_discordant: float, n: int) -> float:
    """The smallest margin within which n problems are likely (80%) to show equivalence; the reverse of `needed_n`."""
    return _POWER_Z * math.sqrt(share_discordant / n)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio with its interval and how it was found."""

    value: float
    ci: Interval | None
    method: str


def geometric_mean(values: Sequence[float]) -> float:
    """The mean on the logarithm, of positive values: the mean of ratios, whichever way they are taken."""
    if len(values) == 1:
        return values[0]  # to the last digit
    return math.exp(sum(math.log(value) for value in values) / len(values))


def geometric_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Student's interval of the geometric mean of runs; None for a single run or a value that has no logarithm."""
    if len(values) < 2 or min(values) <= 0:
        return None
    logs = np.log(values)
    half = float(stats.t.ppf(0.5 + confidence / 2, len(values) - 1)) * float(logs.std(ddof=1)) / math.sqrt(len(values))
    return Interval(math.exp(logs.mean() - half), math.exp(logs.mean() + half))


def welch_ratio(numerator: Sequence[float], denominator: Sequence[float], confidence: float = 0.95) -> Ratio:
    """The ratio of two engines' figures with runs as units: Welch's t interval on the logarithms (Welch 1947).

    Raises:
        ValueError: fewer than two runs on a side, or a figure that is not positive.
    """
    if min(len(numerator), len(denominator)) < 2 or min(*numerator, *denominator) <= 0:
        raise ValueError("at least two runs with positive figures are needed on each side")
    a, b = np.log(numerator), np.log(denominator)
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    difference = float(a.mean() - b.mean())
    if va + vb < 1e-24:
        return Ratio(math.exp(difference), Interval(math.exp(difference), math.exp(difference)), "welch")
    df = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    half = float(stats.t.ppf(0.5 + confidence / 2, df)) * math.sqrt(va + vb)
    return Ratio(math.exp(difference), Interval(math.exp(difference - half), math.exp(difference + half)), "welch")


def bootstrap_quantile(values: Floats, quantile: float, rng: np.random.Generator) -> Floats:
    """`BOOTSTRAP_DRAWS` resampled quantiles of one run's requests (Efron 1979).

    For many values the resampled order statistic is drawn through its rank: the uniform order statistic of rank k of n
    is Beta(k, n - k + 1), so nothing has to be sorted again.
    """
    ordered = np.sort(values)
    n = len(ordered)
    if n < EXACT_BOOTSTRAP_FROM:
        drawn = ordered[rng.integers(0, n, (BOOTSTRAP_DRAWS, n))]
        return np.asarray(np.quantile(drawn, quantile, axis=1), dtype=float)
    rank = 1 + round(quantile * (n - 1))
    uniform = rng.beta(rank, n - rank + 1, BOOTSTRAP_DRAWS)
    return np.asarray(ordered[np.minimum((uniform * n).astype(int), n - 1)], dtype=float)


def bootstrap_mean(values: Floats, rng: np.random.Generator, weights: Floats | None = None) -> Floats:
    """Resampled means, or with weights resampled ratios sum(values) / sum(weights), of one run's requests.

    For many values the resampled mean is normal around the point (central limit theorem), and a ratio's spread is that
    of its residuals values - ratio * weights (Cochran 1977, 2.11), so that nothing has to be drawn value by value.
    """
    n = len(values)
    below = np.ones(n) if weights is None else weights
    if n < EXACT_BOOTSTRAP_FROM:
        chosen = rng.integers(0, n, (BOOTSTRAP_DRAWS, n))
        return np.asarray(values[chosen].sum(axis=1) / below[chosen].sum(axis=1), dtype=float)
    point = float(values.sum() / below.sum())
    error = float((values - point * below).std()) / (float(below.mean()) * math.sqrt(n))
    return np.asarray(rng.normal(point, error, BOOTSTRAP_DRAWS), dtype=float)


def percentile_interval(draws: Floats, confidence: float = 0.95) -> Interval:
    """The middle of a bootstrap distribution."""
    tail = 50 * (1 - confidence)
    low, high = np.percentile(draws, [tail, 100 - tail])
    return Interval(float(low), float(high))
