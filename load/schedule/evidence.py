"""Tests a share against a bar sequentially: it may be evaluated after every request.

For a bar b and each side of it, a mixture of likelihood ratios against b is computed: the mean over some shares q on
that side of (q / b)^met * ((1 - q) / (1 - b))^missed. If the true share is b or lies on the other side, the chance that
it ever reaches 1 / (1 - confidence) is at most 1 - confidence (Ville 1939; Robbins 1970, Ann. Math. Stat. 41:1397).
So the share is above the bar once the upper mixture has reached that value. Both ends of the interval are computed in
the same way, so the interval excludes the bar exactly when the test has decided.
"""

from __future__ import annotations

import math

PASSES, FAILS, UNDECIDED = "passes", "fails", "undecided"

_BETTER = ((0.0, 0.3), *((0.8**k, 0.7 / 8) for k in range(1, 9)))
"""Shares above a bar, as (part of the bar's misses, weight). A server below its limit misses hardly any."""
_WORSE_BY = 1.25
"""Factor between the misses of successive shares below a bar."""


def evidence(met: float, missed: float, bar: float, *, above: bool) -> float:
    """The logarithm of the mixture for shares above the bar, or below it; 0 before the first request.

    Args:
        met: requests that met the objectives; fractional if several count as one observation.
        missed: requests that did not.
        bar: the limit, between 0 and 1 (exclusive).
        above: whether to test above the bar, else below.
    """
    miss = 1 - bar
    terms = []
    for part, weight in _BETTER if above else _worse(miss):
        q = part * miss
        if (q == 0 and missed) or (q == 1 and met):
            continue
        hit = met * math.log((1 - q) / bar) if met else 0.0
        terms.append(math.log(weight) + hit + (missed * math.log(part) if missed else 0.0))
    if not terms:
        return -math.inf
    top = max(terms)
    return top + math.log(sum(math.exp(term - top) for term in terms))


def _worse(miss: float) -> list[tuple[float, float]]:
    """Shares below a bar with this share of misses, as (factor of its misses, weight), up to a share of 0."""
    parts = []
    part = _WORSE_BY
    while part * miss < 1:
        parts.append(part)
        part *= _WORSE_BY
    parts.append(1 / miss)
    return [(part, 1 / len(parts)) for part in parts]


class ShareTest:
    """Tests whether at least the share `bar` of requests meets the objectives, from the requests so far."""

    def __init__(self, bar: float, confidence: float) -> None:
        self.bar, self.confidence = bar, confidence
        self.met = self.missed = 0
        self._met = self._missed = 0.0
        """The same, as numbers of independent observations."""
        self.verdict: str | None = None
        """`PASSES` or `FAILS`, once it is decided; later requests do not change it."""

    @property
    def requests(self) -> int:
        return self.met + self.missed

    def add(self, met: bool, weight: float = 1.0) -> None:
        """Add one request, which counts as the fraction `weight` of an independent observation."""
        self.met += met
        self.missed += not met
        self._met += weight * met
        self._missed += weight * (not met)
        if self.verdict is None:
            for side, above in ((PASSES, True), (FAILS, False)):
                if evidence(self._met, self._missed, self.bar, above=above) >= self._needed:
                    self.verdict = side

    @property
    def _needed(self) -> float:
        return -math.log(1 - self.confidence)

    def interval(self) -> tuple[float, float]:
        """The interval of the share; each end has the confidence of a decision."""
        if not self.requests:
            return 0.0, 1.0
        share = self.met / self.requests
        low = self._end(0.0, share, above=True)
        high = self._end(1.0, share, above=False)
        return low, high

    def _end(self, far: float, near: float, *, above: bool) -> float:
        """The share at which the evidence is just sufficient, between an excluded share and the observed one."""
        for _ in range(40):
            middle = (far + near) / 2
            if 0 < middle < 1 and evidence(self._met, self._missed, middle, above=above) >= self._needed:
                far = middle
            else:
                near = middle
        return far
