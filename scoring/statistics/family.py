"""Family-wise error: Holm's step-down procedure over the claims that decide a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FAMILY_ERROR = 0.05
"""The chance that a report holds any wrong word of one kind (a difference, or an equivalence)."""


@dataclass(frozen=True, slots=True)
class HolmStep:
    """What Holm's procedure says of one claim."""

    rejected: bool
    level: float
    """The error level at which the claim was judged: the family's error / the claims still open at its step."""
    p_adjusted: float
    """The smallest family error at which the claim would be rejected."""


def holm(p_values: Sequence[float], error: float = FAMILY_ERROR) -> list[HolmStep]:
    """Judge a family of null hypotheses, in the order given (Holm 1979, Scand. J. Stat. 6:65).

    The smallest p is held against error / m, the next against error / (m - 1), until one is not rejected; that one and
    all larger ones stay open. Whatever their dependence, the chance to reject any true one is at most `error`.
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
