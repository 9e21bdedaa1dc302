"""Family-wise error: Holm's step-down procedure over the claims that decide a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FAMILY_ERROR = 0.05
"""The chance that a report has any wrong verdict of one kind (difference, or equivalence)."""


@dataclass(frozen=True, slots=True)
class HolmStep:
    """The result of Holm's procedure for one claim."""

    rejected: bool
    level: float
    """The error level at which the claim was judged: the family's error / the number of claims open at its step."""
    p_adjusted: float
    """The smallest family error at which the claim would be rejected."""


def holm(p_values: Sequence[float], error: float = FAMILY_ERROR) -> list[HolmStep]:
    """Judge a family of null hypotheses, in the order given (Holm 1979, Scand. J. Stat. 6:65).

    The smallest p is compared with error / m, the next with error / (m - 1), until one is not rejected; that one and
    all larger ones stay open. The chance to reject any true hypothesis is at most `error`, whatever their dependence.
    """
    family = len(p_values)
    steps: dict[int, HolmStep] = {}
    p_adjusted, open_claims, rejecting = 0.0, family, True
    for index in sorted(range(family), key=lambda i: p_values[i]):
        p_adjusted = max(p_adjusted, min(1.0, p_values[index] * (family - len(steps))))
        rejecting = rejecting and p_values[index] <= error / open_claims
        steps[index] = HolmStep(rejecting, error / open_claims, p_adjusted)
        open_claims -= rejecting
    return [steps[index] for index in range(family)]
