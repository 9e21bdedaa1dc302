"""The nightly gate: is a figure a regression, beyond what the noise of this host explains? Pure functions.

Everything is on the logarithm, as the speed ratio tonight / baseline (below 1 is slower). A regression needs both: a
95% interval that excludes 1, and an effect larger than max(threshold, 2 x the standard deviation of the A/A ratio).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from scoring.statistics.ratios import welch

Verdict = Literal["ok", "regression", "improved", "not judged"]

FEWEST_NIGHTS = 3
"""From so many nights on the spread between nights is the yardstick; Student's t widens what few of them tell."""

FEWEST_STEPS = 5
"""So many steps from night to night are needed for their median to say anything."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Speed ratio (of answers: difference of accuracy) with its 95% interval, and the word for it."""

    verdict: Verdict
    ratio: float | None
    ci: tuple[float, float] | None
    limit: float | None
    """What the ratio (or the difference) has to fall below to count."""
    evidence: str

    @property
    def fails(self) -> bool:
        return self.verdict == "regression"


def rule(effect: float, half: float, noise: float, threshold: float, basis: str) -> Decision:
    """The rule itself.

    Args:
        effect: logarithm of the speed ratio.
        half: half the width of its 95% interval.
        noise: standard deviation of the A/A log ratio.
        threshold: the least relative effect that counts, 0.03 for 3%.
        basis: what the interval rests on, in words.
    """
    limit = max(threshold, 2 * noise)
    beyond = abs(effect) > half and 1 - math.exp(-abs(effect)) > limit
    verdict: Verdict = ("regression" if effect < 0 else "improved") if beyond else "ok"
    ci = (math.exp(effect - half), math.exp(effect + half))
    return Decision(verdict, math.exp(effect), ci, max(0.0, 1 - limit), f"{basis}; A/A sd {100 * noise:.2f}%")


def decide(
    baseline: Sequence[Sequence[float]],
    tonight: Sequence[float],
    *,
    higher_is_better: bool,
    threshold: float,
    aa_sd: float | None = None,
    interleaved: bool = False,
) -> Decision:
    """Hold tonight's rounds against those of one or more earlier nights (or of another engine tonight: one night).

    Args:
        baseline: the rounds of each night of the baseline; all positive.
        tonight: tonight's rounds; all positive.
        higher_is_better: whether a larger figure is faster.
        threshold: the least relative effect that counts, 0.03 for 3%.
        aa_sd: standard deviation of the log A/A ratio as the history shows it; None where it is too short.
        interleaved: the baseline was measured tonight, so that both sides share whatever differs between nights.

    Returns:
        "not judged" where a figure is not positive, or there is one round on each side and no history of the noise.
    """
    held = [night for night in baseline if len(night)]
    if not held or not len(tonight) or any(min(night) <= 0 for night in [*held, tonight]):
        return Decision("not judged", None, None, None, "no positive figure on both sides")
    if len(held) >= FEWEST_NIGHTS:
        return _against_nights(held, tonight, higher_is_better, threshold, aa_sd or 0.0)
    flat = [value for night in held for value in night]
    if min(len(flat), len(tonight)) < 2:
        return _single_rounds(flat, tonight, higher_is_better, threshold, aa_sd)
    ratio = welch(tonight, flat) if higher_is_better else welch(flat, tonight)
    basis = f"Welch on the logarithms of {len(flat)} and {len(tonight)} rounds"
    if not interleaved and aa_sd is None:
        few = "1 night" if len(held) == 1 else f"{len(held)} nights"
        basis += f", blind to noise from night to night ({few} before)"
    half = ratio.interval().high - ratio.estimate
    return rule(ratio.estimate, half, max(ratio.error, aa_sd or 0.0), threshold, basis)


def _against_nights(
    nights: Sequence[Sequence[float]], tonight: Sequence[float], higher_is_better: bool, threshold: float, aa_sd: float
) -> Decision:
    """Tonight's mean against the prediction interval of one more night (Student's, on the logarithms).

    Rounds of one night share its temperature, its boot and its neighbours, so the night is the unit.
    """
    means = np.array([np.log(night).mean() for night in nights])
    effect = float(np.log(tonight).mean() - means.mean()) * (1 if higher_is_better else -1)
    spread = float(means.std(ddof=1)) * math.sqrt(1 + 1 / len(means))
    half = float(stats.t.ppf(0.975, len(means) - 1)) * spread
    return rule(effect, half, max(spread, aa_sd), threshold, f"prediction interval from {len(means)} nights")


def _single_rounds(
    before: Sequence[float], tonight: Sequence[float], higher_is_better: bool, threshold: float, aa_sd: float | None
) -> Decision:
    """One round a side says nothing of its noise; the history may."""
    effect = float(np.log(tonight).mean() - np.log(before).mean()) * (1 if higher_is_better else -1)
    if aa_sd is None:
        advice = "one round a side says nothing of its noise; use rounds = 3 or more, or window:N"
        return Decision("not judged", math.exp(effect), None, None, advice)
    return rule(effect, 1.96 * aa_sd, aa_sd, threshold, "noise taken from the history")


def night_to_night_sd(nights: Sequence[Sequence[float]]) -> float | None:
    """Standard deviation of the log ratio of one night against the next, from consecutive nights of one series.

    Robust (median of absolute differences), so that one real shift in the past does not blind the gate.

    Returns:
        None below five differences.
    """
    means = [float(np.mean(np.log(night))) for night in nights if len(night) and min(night) > 0]
    steps = np.abs(np.diff(means))
    return float(np.median(steps)) * 1.4826 if len(steps) >= FEWEST_STEPS else None


def confirmed(first: Decision, second: Decision, pooled: Decision) -> bool:
    """Whether a second measurement bears out the first.

    Both together must fail the gate, and the second alone must lose at least half of what counts: one wild first
    measurement can't carry the pair.
    """
    if not (first.fails and pooled.fails) or second.ratio is None or second.limit is None:
        return False
    return second.ratio <= 1 - (1 - second.limit) / 2
