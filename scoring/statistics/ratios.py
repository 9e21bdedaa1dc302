"""Ratios of two engines' figures. The round is the unit; with a single round, its requests are resampled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.statistics.intervals import Interval, StudentEstimate

Floats = NDArray[np.float64]

BOOTSTRAP_DRAWS = 2000
EXACT_BOOTSTRAP_FROM = 500
"""From this many values on, a closed form replaces resampling: see `bootstrap_quantile` and `bootstrap_mean`."""


@dataclass(frozen=True, slots=True)
class LogRatio(StudentEstimate):
    """The logarithm of a ratio, estimated from rounds."""

    @property
    def ratio(self) -> float:
        return math.exp(self.estimate)

    def ratio_interval(self, confidence: float = 0.95) -> Interval:
        """The interval of the ratio itself."""
        interval = self.interval(confidence)
        return Interval(math.exp(interval.low), math.exp(interval.high))


def welch(
    numerator: Sequence[float], denominator: Sequence[float], *, blur: float = 0.0, opposition: float = 0.0
) -> LogRatio:
    """Welch's t on the logarithms of rounds, numerator / denominator (Welch 1947, Biometrika 34:28).

    `blur` is an extra variance of the logarithm of the ratio. All rounds share it, so more rounds do not reduce it.
    `opposition` (see there) adds the covariance of the two sides: to the variance of their difference, and to the
    variance of that estimate, from which the degrees of freedom follow (Satterthwaite 1946, Biometrics 2:110).

    Equals `scipy.stats.ttest_ind(equal_var=False)`, which takes thirty times as long: a report has about 150 ratios,
    and the simulations of benchmarks/false_claims.py millions.

    Raises:
        ValueError: fewer than two rounds on a side, or a figure that is not positive.
    """
    if min(len(numerator), len(denominator)) < 2 or min(*numerator, *denominator) <= 0:
        raise ValueError("at least two rounds with positive figures are needed on each side")
    a, b = np.log(numerator), np.log(denominator)
    va, vb = float(a.var(ddof=1)) / len(a), float(b.var(ddof=1)) / len(b)
    estimate, error = float(a.mean() - b.mean()), math.sqrt((va + vb) * (1 + opposition) + blur)
    covariance = opposition * (va + vb) / 2
    spread = va**2 / (len(a) - 1) + vb**2 / (len(b) - 1) + 2 * covariance**2 / (min(len(a), len(b)) - 1)
    df = (va + vb) ** 2 / spread if spread else len(a) + len(b) - 2
    return LogRatio(estimate, error, df)


def opposition(figures: Iterable[tuple[Sequence[float], Sequence[float]]]) -> float:
    """The share (0 to 1) by which the variance of a difference grows when two engines vary against each other.

    Welch's test assumes that the engine processes of a round are independent. If one is fast when the other is slow (a
    common limit of power or heat), their difference varies more: by -2 cov(a, b) / (var(a) + var(b)). Three rounds of
    one figure cannot show this, so the share is the mean over all figures of a run. If engines vary together, the
    interval is too wide; it is not narrowed.

    Args:
        figures: the rounds of two engines for each figure, round by round in the same order, all positive.
    """
    shares = []
    for one, other in figures:
        if len(one) < 2:
            continue
        a, b = np.log(one), np.log(other)
        both = float(a.var() + b.var())
        shares.append(-2 * float(((a - a.mean()) * (b - b.mean())).mean()) / both if both else 0.0)
    return max(0.0, sum(shares) / len(shares)) if shares else 0.0


def grid_blur(numerator: float | None, denominator: float | None) -> float:
    """The variance of the logarithm of a ratio of two capacities that comes from the width of their brackets.

    Args:
        numerator: width of its bracket as a logarithm, log(fails / passes); None for figures without a bracket.
        denominator: the same.

    The true value is uniform in its bracket (variance width^2 / 12), on average half a width above the level that
    passes; this bias cancels where both brackets are equally wide. The variance is doubled, so that two neighbouring
    levels never count as different: their true values may be equal.
    """
    a, b = numerator or 0.0, denominator or 0.0
    return (a * a + b * b) / 6 + ((a - b) / 2) ** 2


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive values; the mean of inverse ratios is then the inverse of their mean."""
    if len(values) == 1:
        return values[0]  # without rounding
    return math.exp(sum(math.log(value) for value in values) / len(values))


def geometric_interval(values: Sequence[float], confidence: float = 0.95) -> Interval | None:
    """Student's interval of the geometric mean of rounds; None for a single round or a value of 0 or less."""
    if len(values) < 2 or min(values) <= 0:
        return None
    logs = np.log(values)
    mean = LogRatio(float(logs.mean()), float(logs.std(ddof=1)) / math.sqrt(len(logs)), len(logs) - 1)
    return mean.ratio_interval(confidence)


def bootstrap_quantile(values: Floats, quantile: float, rng: np.random.Generator) -> Floats:
    """`BOOTSTRAP_DRAWS` resampled quantiles of one round's requests (Efron 1979).

    For many values the rank of the resampled order statistic is drawn: the uniform order statistic of rank k of n
    is Beta(k, n - k + 1), so the values are sorted only once.
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
    """Resampled means of one round's requests; with weights, resampled ratios sum(values) / sum(weights).

    For many values the resampled mean is normal around the point estimate (central limit theorem), and a ratio's spread
    is that of its residuals values - ratio * weights (Cochran 1977, 2.11), so single values need not be drawn.
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
    """The central `confidence` of a bootstrap distribution."""
    tail = 50 * (1 - confidence)
    low, high = np.percentile(draws, [tail, 100 - tail])
    return Interval(float(low), float(high))
