"""An interval, and an estimate with Student's t, which most comparisons of means use."""

from __future__ import annotations

from dataclasses import dataclass

from scipy import special


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high

    def as_list(self) -> list[float]:
        return [self.low, self.high]


def z_of(confidence: float) -> float:
    """The two-sided normal quantile: 1.96 for 0.95."""
    return float(special.ndtri(0.5 + confidence / 2))


_NO_SPREAD = 1e-12
"""Below this standard error the values are equal, apart from rounding."""


@dataclass(frozen=True, slots=True)
class StudentEstimate:
    """An estimated difference with its standard error and degrees of freedom (Student 1908)."""

    estimate: float
    error: float
    df: float

    def interval(self, confidence: float = 0.95) -> Interval:
        """The two-sided interval of the difference."""
        half = float(special.stdtrit(self.df, 0.5 + confidence / 2)) * self.error
        return Interval(self.estimate - half, self.estimate + half)

    def p_difference(self) -> float:
        """Two-sided p-value of "there is no difference"."""
        return 2 * self._upper_tail(abs(self.estimate))

    def p_equivalence(self, margin: float) -> float:
        """p-value of "the difference is `margin` or more, either way": the larger of the two one-sided tests."""
        return self._upper_tail(margin - abs(self.estimate))

    def _upper_tail(self, distance: float) -> float:
        if self.error < _NO_SPREAD:
            return 0.5 if abs(distance) < _NO_SPREAD else float(distance < 0)
        return float(special.stdtr(self.df, -distance / self.error))
