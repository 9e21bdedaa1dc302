"""The nightly gate: decides whether the level of a figure changed by more than the noise of this host. Pure functions.

A figure of a night is the mean of the logarithms of its rounds, with the sign chosen so that higher is faster. Rounds
of one night share its temperature, boot and other load, so the night is the unit. The gate compares the last k nights,
for several k up to two weeks, with the baseline nights before them:

    |mean(last k) - mean(baseline)|  >  t(1 - p, df) * sd * sqrt(1/k + 1/n)

One night shows a large step at once, a few nights show a smaller one, two weeks show a creeping loss. `sd` is the
standard deviation from night to night. `p` is FALSE_NIGHTS divided by the number of figures that the night judges
(Bonferroni), times the share of the window. A regression also needs an effect: the mean of the last (up to) three
nights lies below the baseline by more than the threshold, and tonight alone by more than half of it. A simulation shows
that at most FALSE_NIGHTS of nights are red by chance, including several k and the second measurement
(benchmarks/nightly_simulation.py).

A young series has too few nights to estimate its noise. A prior with the weight of PRIOR_NIGHTS nights supplements them
(moderated t: Smyth 2004, doi:10.2202/1544-6115.1027): it assumes PRIOR_NIGHT_SD plus the noise between rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy import stats
from scipy.special import stdtrit

from scoring.statistics.rounds import FEWEST_ROUNDS

Verdict = Literal["ok", "regression", "improved", "too young", "not judged"]

FALSE_NIGHTS = 0.01
"""Largest share of quiet nights that may be red, over all figures of a night."""

WINDOWS = {1: 0.5, 2: 1.0, 3: 1.0, 5: 0.25, 7: 0.25, 10: 0.15, 14: 0.15}
"""Numbers k of last nights that are compared with the baseline, each with its share of a figure's error.

The shares add up to more than 1, because windows overlap and a regression is measured twice; the simulation checks the
total error.
"""

WEEKLY_CYCLE = 1.05
"""Widens the intervals of 2 to 5 nights, which may all lie on the same side of a weekly cycle's mean."""

PRIOR_NIGHTS = 5
PRIOR_NIGHT_SD = 0.015

YOUNG_NIGHTS = 7
"""With fewer baseline nights, a series is too young to be called ok."""

LONGEST = 60
"""Only this many of the newest baseline nights count."""

FIXED_ODDS = 1e5
"""A regression is fixed when the last nights are this many times likelier on the old level than on the new one."""

FALSE_SIDE_BY_SIDE = 0.05
"""Largest share of false alarms when two engines of one night are compared, before the second measurement."""


ALL_NIGHTS = slice(None)


@dataclass(frozen=True, slots=True)
class Night:
    """The rounds of a figure in one earlier night. `joins` is true if the night may serve as a baseline."""

    rounds: tuple[float, ...]
    joins: bool = True


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviation of a figure from night to night, with its degrees of freedom."""

    sd: float
    df: float

    def half_width(self, recent: int, baseline: int, figures: int) -> float:
        """Half the width of the interval of the difference of two means of nights, on the logarithm."""
        cycle = WEEKLY_CYCLE if 1 < recent < 7 else 1.0
        p = FALSE_NIGHTS / max(figures, 1) * WINDOWS[recent]
        return float(stdtrit(self.df, 1 - p)) * self.sd * math.sqrt(1 / recent + 1 / baseline) * cycle


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on a figure, with its speed ratio (for answers: difference of accuracy) and interval."""

    verdict: Verdict
    ratio: float | None
    ci: tuple[float, float] | None
    limit: float | None
    """One night is a regression if its ratio (or difference) falls below this."""
    evidence: str
    recent: int = 1
    """Number of last nights, tonight included, that are on the new level."""

    @property
    def fails(self) -> bool:
        return self.verdict == "regression"


@lru_cache(maxsize=100_000)
def _logs(rounds: tuple[float, ...]) -> tuple[float, float]:
    """Mean of the logarithms of a night's rounds, and the sum of their squared deviations."""
    logs = [math.log(value) for value in rounds]
    mean = sum(logs) / len(logs)
    return mean, sum((value - mean) ** 2 for value in logs)


def night_noise(nights: Sequence[Sequence[float]]) -> Noise:
    """The noise from night to night, estimated from the baseline nights and moderated by the prior.

    Args:
        nights: rounds of each night, all positive; at least one night.
    """
    logs = [_logs(tuple(night)) for night in nights]
    means = np.array([mean for mean, _ in logs])
    rounds = sum(len(night) for night in nights)
    freedom = rounds - len(nights)
    within = sum(squares for _, squares in logs) / freedom if freedom else 0.0
    prior = PRIOR_NIGHT_SD**2 + within / (rounds / len(nights))
    df = PRIOR_NIGHTS + len(means) - 1
    squares = float(((means - means.mean()) ** 2).sum())
    return Noise(math.sqrt((PRIOR_NIGHTS * prior + squares) / df), df)


def decide(
    earlier: Sequence[Night],
    tonight: Sequence[float],
    *,
    higher_is_better: bool,
    threshold: float,
    figures: int = 1,
    level: slice = ALL_NIGHTS,
) -> Decision:
    """Compare tonight, and the last nights before it, with the baseline nights of the series.

    Args:
        earlier: the nights of the series before tonight, oldest first.
        tonight: tonight's rounds; an empty sequence is a figure that was not measured.
        higher_is_better: whether a larger figure is faster.
        threshold: the least relative loss that counts, 0.03 for 3%.
        figures: number of figures that the night judges.
        level: which of the baseline nights set the level; all of them give the noise.
    """
    held = [night for night in earlier if night.rounds and min(night.rounds) > 0]
    if not any(night.joins for night in held):
        return Decision("not judged", None, None, None, "no earlier night has this figure")
    if not tonight:
        return Decision("not judged", None, None, None, "tonight lacks this figure")
    if min(tonight) <= 0:
        word: Verdict = "regression" if higher_is_better and max(tonight) <= 0 else "not judged"
        text = "fell to 0" if word == "regression" else "0 in some of tonight's rounds"
        return Decision(word, 0.0 if word == "regression" else None, None, None, text)
    sign = 1 if higher_is_better else -1
    means = np.array([sign * _logs(tuple(rounds))[0] for rounds in [*(night.rounds for night in held), tonight]])
    limit = -math.log1p(-threshold)
    first: Decision | None = None
    for recent in WINDOWS:
        if recent > len(held):
            break
        joined = [place for place in range(len(means) - recent) if held[place].joins]
        before, levels = joined[-LONGEST:], joined[level][-LONGEST:]
        # A baseline needs at least as many nights as the window that it is compared with.
        if not before or (recent > 1 and len(before) < min(recent, 2 * YOUNG_NIGHTS)):
            continue
        noise = night_noise([held[place].rounds for place in before])
        half = noise.half_width(recent, len(levels), figures)
        reference = float(means[levels].mean())
        effect = float(means[-recent:].mean()) - reference
        latest = float(means[-min(recent, 3) :].mean()) - reference
        own = float(means[-1]) - reference
        if first is None:
            first = _describe(effect, half, noise, max(limit, half), len(levels), recent)
        side = math.copysign(1.0, effect)
        if abs(effect) > half and side * latest > limit and side * own > limit / 2:
            verdict: Verdict = "regression" if effect < 0 else "improved"
            return _describe(effect, half, noise, max(limit, half), len(levels), recent, verdict)
    assert first is not None
    if sum(night.joins for night in held) < YOUNG_NIGHTS:
        return Decision("too young", first.ratio, first.ci, first.limit, first.evidence)
    return first


def _describe(
    effect: float, half: float, noise: Noise, limit: float, nights: int, recent: int, verdict: Verdict = "ok"
) -> Decision:
    what = "tonight" if recent == 1 else f"the last {recent} nights"
    baseline = f"{nights} nights" if nights > 1 else "1 night"
    evidence = f"{what} against {baseline}; nights differ by {100 * noise.sd:.1f}% (sd)"
    ci = (math.exp(effect - half), math.exp(effect + half))
    return Decision(verdict, math.exp(effect), ci, math.exp(-limit), evidence, recent)


def still_regressed(
    baseline: Sequence[Sequence[float]],
    since: Sequence[Sequence[float]],
    *,
    higher_is_better: bool,
    threshold: float,
    figures: int = 1,
) -> Decision:
    """Decide whether an open, confirmed regression is fixed or still on the new level.

    The likelihood of the last j nights (tonight included) is computed under two hypotheses: the baseline's level, and
    the level of the regression's nights before them, a standard error nearer to the baseline. The regression is fixed
    if the old level is likelier by FIXED_ODDS for some j. One lucky night of a small regression cannot reach that.

    Args:
        baseline: rounds of the baseline nights before the regression.
        since: rounds of every night since it began, tonight last; two nights or more.
        higher_is_better: whether a larger figure is faster.
        threshold: the least relative loss that counts.
        figures: number of figures that the night judges.

    Returns:
        "regression" while it is open, else "ok"; `recent` counts the nights that show the old level.
    """
    sign = 1 if higher_is_better else -1
    noise = night_noise(baseline[-LONGEST:])
    reference = float(np.mean([sign * _logs(tuple(night))[0] for night in baseline[-LONGEST:]]))
    losses = reference - np.array([sign * _logs(tuple(night))[0] for night in since])
    limit = -math.log1p(-threshold)
    half = noise.half_width(1, len(baseline[-LONGEST:]), figures)
    nights = len(baseline[-LONGEST:])
    for recent in range(1, min(len(losses), 8)):
        # The level of few nights is uncertain: one wildly slow night is not taken at its word.
        before = losses[:-recent]
        lost = max(float(before.mean()) - noise.sd / math.sqrt(len(before)), limit)
        last = losses[-recent:]
        odds = float(((last - lost) ** 2 - last**2).sum()) / (2 * noise.sd**2)
        if odds > math.log(FIXED_ODDS):
            return _describe(-float(last.mean()), half, noise, max(limit, half), nights, recent)
    return _describe(-float(losses.mean()), half, noise, max(limit, half), nights, len(losses), "regression")


def decide_side_by_side(
    baseline: Sequence[float], tonight: Sequence[float], *, higher_is_better: bool, threshold: float, figures: int = 1
) -> Decision:
    """Compare one engine with another that ran tonight, interleaved: Welch's test on the logarithms of the rounds.

    Both share tonight's conditions, so the round is the unit.
    """
    if min(len(baseline), len(tonight)) < FEWEST_ROUNDS:
        return Decision("not judged", None, None, None, f"needs {FEWEST_ROUNDS} rounds of each engine")
    if min(*baseline, *tonight) <= 0:
        return Decision("not judged", None, None, None, "no positive figure on both sides")
    sign = 1 if higher_is_better else -1
    a, b = sign * np.log(tonight), sign * np.log(baseline)
    effect = float(a.mean() - b.mean())
    half = 0.0
    if a.std() or b.std():
        welch = stats.ttest_ind(a, b, equal_var=False)
        half = float(welch.confidence_interval(1 - FALSE_SIDE_BY_SIDE / max(figures, 1)).high) - effect
    limit = -math.log1p(-threshold)
    verdict: Verdict = "ok"
    if abs(effect) > max(half, limit):
        verdict = "regression" if effect < 0 else "improved"
    ci = (math.exp(effect - half), math.exp(effect + half))
    evidence = f"Welch on the logarithms of {len(baseline)} and {len(tonight)} rounds"
    return Decision(verdict, math.exp(effect), ci, math.exp(-max(limit, half)), evidence)


def confirmed(first: Decision, second: Decision, pooled: Decision, threshold: float) -> bool:
    """Whether a second measurement confirms the first.

    Both together must fail the gate, and the second alone must lose at least half of the threshold, so that an outlier
    in the first measurement is not enough.
    """
    return first.fails and pooled.fails and second.ratio is not None and second.ratio <= 1 - threshold / 2
