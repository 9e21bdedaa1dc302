"""Accuracy from k samples a problem: avg@k with a standard error that knows its clusters, and unbiased pass@k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt

Outcomes = Sequence[Sequence[bool]]
"""One row a problem, one value a sample."""


@dataclass(frozen=True, slots=True)
class AvgAtK:
    """Mean accuracy over all samples, weighing every problem alike, in the range 0 to 1."""

    mean: float
    standard_error: float | None
    """Of the mean, over problems: what another draw of problems and samples would move it; None for one problem."""
    problems: int
    samples: int


def avg_at_k(outcomes: Outcomes) -> AvgAtK:
    """The mean of the problems' means. Samples of one problem are not independent, so the problem is the unit.

    The clustered standard error, sqrt(sum over clusters of (sum of residuals)^2) / n, with its small-sample factor
    c/(c - 1) and clusters of one weight, is the standard error of the mean of cluster means (Cameron & Miller 2015).

    Raises:
        ValueError: there is no problem, or one without a sample.
    """
    if not outcomes or not all(outcomes):
        raise ValueError("avg@k needs at least one problem and one sample of each")
    means = [sum(row) / len(row) for row in outcomes]
    count = len(means)
    mean = sum(means) / count
    error = sqrt(sum((m - mean) ** 2 for m in means) / (count - 1) / count) if count > 1 else None
    return AvgAtK(mean, error, count, sum(map(len, outcomes)))


def pass_at_k(outcomes: Outcomes, k: int) -> float:
    """The chance that at least one of k samples is right, mean over problems; unbiased for n >= k samples.

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
    return 1.0 - prod(1.0 - k / i for i in range(wrong + 1, n + 1))
