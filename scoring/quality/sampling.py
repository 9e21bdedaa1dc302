"""Accuracy from k samples per problem: avg@k with a standard error clustered by problem, and unbiased pass@k."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scoring.statistics.intervals import Interval, StudentEstimate
from scoring.statistics.proportions import PairedTable

Outcomes = Sequence[Sequence[bool]]
"""One row per problem, one value per sample."""

FEWEST_DIFFERING = 6
"""If fewer problems differ, no sign test reaches 5%, and their spread cannot be estimated."""


def mean_clustered(
    problem_means: Sequence[float], confidence: float = 0.95
) -> tuple[float, float | None, Interval | None]:
    """avg@k: the mean over problems of the mean over samples, its standard error clustered by problem, its t interval.

    Samples of one problem are not independent, so the problem is the unit. The clustered standard error, sqrt(sum over
    clusters of (sum of residuals)^2) / n, with its small-sample factor c/(c - 1) and clusters of one weight, is the
    standard error of the mean of cluster means (Cameron & Miller 2015).

    Returns:
        (mean, standard error, interval), the last two None for a single problem.

    Raises:
        ValueError: there is no problem.
    """
    if not len(problem_means):
        raise ValueError("avg@k needs at least one problem")
    means = np.asarray(problem_means, dtype=float)
    mean = float(means.mean())
    if len(means) < 2:
        return mean, None, None
    estimate = StudentEstimate(mean, float(means.std(ddof=1)) / math.sqrt(len(means)), len(means) - 1)
    return mean, estimate.error, estimate.interval(confidence)


@dataclass(frozen=True, slots=True)
class PairedProblems:
    """The change of each problem's share of right samples between two engines or runs; not empty."""

    changes: Sequence[float]

    @property
    def gained(self) -> int:
        return sum(change > 0 for change in self.changes)

    @property
    def lost(self) -> int:
        return sum(change < 0 for change in self.changes)

    @property
    def few(self) -> bool:
        """Whether so few problems differ that no exact test can show a difference."""
        return self.gained + self.lost < FEWEST_DIFFERING

    @property
    def flips(self) -> PairedTable:
        """The table in which each problem that differs counts as one flip."""
        return PairedTable(self.gained, self.lost, len(self.changes))

    @property
    def estimate(self) -> float:
        """The mean change over the problems."""
        return float(np.mean(self.changes))

    def interval(self, confidence: float = 0.95) -> Interval | None:
        """The t interval clustered by problem; where few problems differ, the interval of the flips instead.

        With few differing problems the t interval would shrink to (nearly) a point.
        """
        return self.flips.interval(confidence) if self.few else mean_clustered(self.changes, confidence)[2]

    def p_difference(self) -> float:
        """Two-sided p-value of "no change"; 1 where few problems differ."""
        return 1.0 if self.few else self._student().p_difference()

    def p_equivalence(self, margin: float) -> float:
        """p-value of "the mean change is `margin` or more, either way"."""
        return self.flips.p_equivalence(margin) if self.few else self._student().p_equivalence(margin)

    def _student(self) -> StudentEstimate:
        mean, error, _ = mean_clustered(self.changes)
        assert error is not None  # six problems and more
        return StudentEstimate(mean, error, len(self.changes) - 1)


def pass_at_k(outcomes: Outcomes, k: int) -> float:
    """The chance that at least one of k samples is right, averaged over problems; unbiased for n >= k samples.

    1 - C(n - c, k) / C(n, k) with c right of n (Chen et al. 2021, "Evaluating large language models trained on code").

    Raises:
        ValueError: there is no problem, k is below 1, or a problem has fewer than k samples.
    """
    if k < 1 or not outcomes or any(len(row) < k for row in outcomes):
        raise ValueError(f"pass@{k} needs k >= 1 and at least k samples of each problem")
    return sum(_pass_one(len(row), sum(row), k) for row in outcomes) / len(outcomes)


def _pass_one(n: int, right: int, k: int) -> float:
    wrong = n - right
    if wrong < k:
        return 1.0
    # The quotient of binomials as a product: no huge numbers.
    return 1.0 - math.prod(1.0 - k / i for i in range(wrong + 1, n + 1))
