"""`rounds = "auto"`: tests the figures after every round and stops when all are decided, at the same error rate.

Group-sequential bounds: each look may spend only a share of a figure's error (Lan & DeMets 1983,
Biometrika 70:659, with their Pocock-type function). The bounds come from the recursive integration of Armitage,
McPherson & Rowe (1969, J. R. Stat. Soc. A 132:235), and are used as significance levels of the t tests (Jennison &
Turnbull 2000, Group Sequential Methods, 4.4). Decided figures pass their error to the others as in Holm's procedure
(Maurer & Bretz 2013, Stat. Biopharm. Res. 5:311), and stay decided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from scoring.statistics.family import FAMILY_ERROR
from scoring.statistics.joint_verdict import Evidence, Judgement, Outcome
from scoring.statistics.rounds import FEWEST_ROUNDS, MOST_ROUNDS

Floats = NDArray[np.float64]

_GRID = 200
"""Points of the integration over the z of a look; reproduces the published bounds to four digits."""


def spent(share: float, error: float) -> float:
    """The error that may be spent when this share of the rounds is done (Lan & DeMets 1983, Pocock type)."""
    return error * math.log(1 + (math.e - 1) * min(1.0, share))


@cache
def nominal_levels(error: float, looks: tuple[int, ...], most: int = MOST_ROUNDS) -> tuple[float, ...]:
    """The two-sided significance level of each look, such that all looks together have the given error.

    Args:
        error: of one figure over all looks, two-sided.
        looks: the rounds after which the figure is tested, ascending.
        most: the round at which all error is spent.
    """
    levels: list[float] = []
    grid = weights = density = np.empty(0)
    before, spent_before = 0, 0.0
    for look in looks:
        # The score process S = z sqrt(n) has independent normal increments of variance 1 per round.
        allowed = spent(look / most, error) - spent_before
        spent_before += allowed
        if not before:
            bound = float(-special.ndtri(allowed / 2))
        else:
            bound = _bound(grid, weights * density, before, look, allowed)
        levels.append(2 * float(special.ndtr(-bound)))
        edge = bound * math.sqrt(look)
        points = np.linspace(-edge, edge, 2 * _GRID + 1)
        if before:
            step = math.sqrt(look - before)
            kernel = np.exp(-0.5 * ((points[:, None] - grid[None, :]) / step) ** 2) / (step * math.sqrt(2 * math.pi))
            density = kernel @ (weights * density)
        else:
            density = np.exp(-0.5 * points**2 / look) / math.sqrt(2 * math.pi * look)
        grid, weights, before = points, _simpson(points), look
    return tuple(levels)


def _bound(grid: Floats, mass: Floats, before: int, look: int, allowed: float) -> float:
    """The z that the process exceeds for the first time at this look with exactly the allowed probability."""
    step = math.sqrt(look - before)

    def crossing(bound: float) -> float:
        edge = bound * math.sqrt(look)
        return float(mass @ (special.ndtr((grid - edge) / step) + special.ndtr((-edge - grid) / step)))

    low, high = 0.0, 12.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if crossing(middle) > allowed else (low, middle)
    return (low + high) / 2


def _simpson(points: Floats) -> Floats:
    weights = np.ones(len(points))
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    return np.asarray(weights * (points[1] - points[0]) / 3)


class SequentialFamily:
    """The deciding figures of a run that is tested after every round: call `look` with the evidence so far."""

    def __init__(self, size: int, error: float = FAMILY_ERROR, most: int = MOST_ROUNDS) -> None:
        self.size, self.error, self.most = size, error, most
        self.outcomes: list[Outcome] = ["inconclusive"] * size
        self.judgements: list[Judgement | None] = [None] * size
        self._different: set[int] = set()
        self._equivalent: set[int] = set()

    @property
    def decided(self) -> bool:
        return all(outcome != "inconclusive" for outcome in self.outcomes)

    def look(self, rounds: int, figures: Sequence[tuple[Evidence, float] | None]) -> list[Judgement | None]:
        """Judge every figure after `rounds` rounds; earlier decisions stay.

        `figures` has each figure's evidence and margin, or None where a figure is (still) unknown.
        """
        look = min(rounds, self.most) - FEWEST_ROUNDS
        known = [(index, *figure) for index, figure in enumerate(figures) if figure is not None]
        p_difference = {index: evidence.p_difference() for index, evidence, _ in known}
        p_equivalence = {index: evidence.p_equivalence(margin) for index, evidence, margin in known}
        if rounds <= self.most:
            self._step(self._different, p_difference, look, sides=2)
            self._step(self._equivalent, p_equivalence, look, sides=1)
        for index, evidence, _ in known:
            level = self._level(self._different, look, sides=2)
            if self.outcomes[index] == "inconclusive":
                if index in self._equivalent:
                    self.outcomes[index] = "equivalent"
                elif index in self._different:
                    self.outcomes[index] = "above" if evidence.estimate > 0 else "below"
            elif self.judgements[index] is not None:
                continue
            adjusted = min(1.0, p_difference[index] * self.error / level)
            self.judgements[index] = Judgement(
                self.outcomes[index],
                evidence.interval(1 - level),
                1 - level,
                adjusted,
                self._level(self._equivalent, look, sides=1),
            )
        return self.judgements

    def _step(self, rejected: set[int], p_values: dict[int, float], look: int, sides: int) -> None:
        """Holm at one look: each rejection passes its error to the claims that are still open."""
        for index in sorted((i for i in p_values if i not in rejected), key=lambda i: p_values[i]):
            if p_values[index] > self._level(rejected, look, sides):
                break
            rejected.add(index)

    def _level(self, rejected: set[int], look: int, sides: int) -> float:
        """The significance level of a look (0 is the first) for a claim still open; one-sided for `sides` = 1."""
        share = self.error / max(1, self.size - len(rejected))
        # Later looks do not change the levels of earlier ones, so one list serves every look.
        levels = nominal_levels(share * (2 / sides), tuple(range(FEWEST_ROUNDS, self.most + 1)), self.most)
        return levels[look] * (sides / 2)


def needed_rounds(
    evidence: Evidence, rounds: int, margin: float, level: float, equivalence_level: float, most: int = 99
) -> int | None:
    """The total number of rounds that would decide this figure, at its present ratio and spread; None beyond `most`.

    Args:
        evidence: the figure after `rounds` rounds; its standard error shrinks with the square root of the rounds.
        rounds: measured so far, on each side.
        margin: of equivalence, on the scale of the evidence.
        level: of the two-sided test of a difference.
        equivalence_level: of each one-sided test of equivalence.
        most: the largest useful answer.
    """
    interval = evidence.interval(0.95)
    if interval is None:
        return None
    spread = (interval.high - interval.low) / 2 / float(special.stdtrit(2 * rounds - 2, 0.975)) * math.sqrt(rounds)
    for total in range(rounds + 1, most + 1):
        error, df = spread / math.sqrt(total), 2 * total - 2
        if abs(evidence.estimate) > float(special.stdtrit(df, 1 - level / 2)) * error:
            return total
        if margin - abs(evidence.estimate) > float(special.stdtrit(df, 1 - equivalence_level)) * error:
            return total
    return None
