"""Statistics of shares of right answers: of one engine, and paired between two engines on the same problems."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import optimize, special, stats

from scoring.statistics.intervals import Interval, z_of

EQUIVALENCE_CONFIDENCE = 0.90
"""Two one-sided tests at 5% each are the 90% interval inside the margin (Schuirmann 1987)."""

_FAR = 1e6
"""Replaces an infinite score, so that the root search has finite values at both ends."""


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
    """Exact two-sided McNemar: a binomial test of the discordant problems against one half; 1.0 without any."""
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
    return PairedTable(only_candidate, only_baseline, n).interval(confidence)


@dataclass(frozen=True, slots=True)
class PairedTable:
    """The discordant problems of two engines that were asked the same n problems."""

    only_candidate: int
    only_baseline: int
    n: int

    def __post_init__(self) -> None:
        discordant = self.only_candidate + self.only_baseline
        if self.n <= 0 or min(self.only_candidate, self.only_baseline) < 0 or discordant > self.n:
            raise ValueError(f"{self.only_candidate} and {self.only_baseline} discordant problems of {self.n}")

    @property
    def estimate(self) -> float:
        """The difference of the shares, candidate - baseline."""
        return (self.only_candidate - self.only_baseline) / self.n

    def interval(self, confidence: float = 0.95) -> Interval:
        """Tango's score interval of the difference."""
        z = z_of(confidence)
        # The score falls as d grows: the lower end is where it is z, the upper where it is -z.
        low = -1.0 if self.score(-1.0) <= z else self._root(z, -1.0, self.estimate)
        high = 1.0 if self.score(1.0) >= -z else self._root(-z, self.estimate, 1.0)
        return Interval(low, high)

    def p_difference(self) -> float:
        """The larger p-value of the exact McNemar test and of the score test: a difference needs both."""
        score_p = 2 * float(special.ndtr(-abs(self.score(0.0))))
        return max(mcnemar_p(self.only_candidate, self.only_baseline), score_p)

    def p_equivalence(self, margin: float) -> float:
        """The larger p-value of the two one-sided score tests against -margin and margin."""
        return float(max(special.ndtr(-self.score(-margin)), special.ndtr(self.score(margin))))

    def score(self, d: float) -> float:
        """(b - c - n d) over its standard error, with q, the probability of c, estimated under the difference d."""
        b, c, n = self.only_candidate, self.only_baseline, self.n
        numerator = b - c - n * d
        linear = -b - c + (2 * n - b + c) * d
        root = math.sqrt(max(0.0, linear * linear + 8 * n * c * d * (1 - d)))
        q = (root - linear) / (4 * n)
        variance = n * (2 * q + d * (1 - d))
        if variance <= 1e-12:
            return 0.0 if abs(numerator) < 1e-9 else math.copysign(math.inf, numerator)
        return numerator / math.sqrt(variance)

    def _root(self, level: float, low: float, high: float) -> float:
        def above_level(d: float) -> float:
            return max(-_FAR, min(_FAR, self.score(d))) - level

        return float(optimize.brentq(above_level, low, high, xtol=1e-13))


def discordance(only_candidate: int, only_baseline: int, n: int) -> float:
    """The estimated share of discordant problems, never 0: none of 30 does not mean that there are none."""
    return (only_candidate + only_baseline + 1) / (n + 2)


def _power_z(level: float) -> float:
    """z(1 - level) + z(1 - 0.2 / 2): each side tests at `level`, and both succeed in 80% where nothing differs."""
    return float(special.ndtri(1 - level) + special.ndtri(0.9))


def needed_n(share_discordant: float, margin: float, level: float = 0.05) -> int:
    """The number of problems with which an equivalence claim succeeds in 80% of cases where nothing differs."""
    return math.ceil(_power_z(level) ** 2 * share_discordant / margin**2)


def settled_margin(share_discordant: float, n: int, level: float = 0.05) -> float:
    """The smallest margin at which n problems show equivalence in 80% of cases; the inverse of `needed_n`."""
    return _power_z(level) * math.sqrt(share_discordant / n)
