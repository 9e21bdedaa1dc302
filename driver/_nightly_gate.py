"""The decision of a night for one figure: is it a regression, beyond what the noise of this host explains?

Everything is on the logarithm, as the speed ratio tonight / baseline (below 1 is slower). A regression needs both: an
interval that excludes 1, and an effect larger than max(threshold, 2 x the standard deviation of the A/A ratio).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from scoring import gate
from scoring.statistics import mcnemar_p, mean_clustered, paired_difference

Verdict = Literal["ok", "regression", "improved", "not judged"]

FEWEST_NIGHTS = 5
"""From so many nights on, the spread between nights itself is the yardstick."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Speed ratio with its 95% interval, the ratio below which it counts, and the word for it."""

    verdict: Verdict
    ratio: float | None
    ci: tuple[float, float] | None
    limit: float | None
    evidence: str


def decide(
    baseline: Sequence[Sequence[float]],
    tonight: Sequence[float],
    *,
    higher_is_better: bool,
    threshold: float,
    aa_sd: float | None = None,
) -> Decision:
    """Hold tonight's rounds against those of one or more earlier nights.

    Args:
        baseline: the rounds of each night of the baseline; all positive.
        tonight: tonight's rounds; all positive.
        higher_is_better: whether a larger figure is faster.
        threshold: the least relative effect that counts, 0.03 for 3%.
        aa_sd: standard deviation of the log A/A ratio as the history shows it; None where it is too short.

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
    noise = max(gate.aa_sd(flat, tonight), aa_sd or 0.0)
    found = gate.gate(flat, tonight, noise, threshold, better="higher" if higher_is_better else "lower")
    assert found.ratio is not None and found.ci is not None and found.limit is not None
    evidence = f"Welch on the logarithms of {len(flat)} and {len(tonight)} rounds; A/A sd {100 * noise:.2f}%"
    ci = (found.ci.low, found.ci.high)
    return Decision(_WORDS[found.verdict], found.ratio, ci, max(0.0, 1 - found.limit), evidence)


_WORDS: dict[str, Verdict] = {
    gate.OK: "ok",
    gate.REGRESSION: "regression",
    gate.IMPROVEMENT: "improved",
    gate.NOT_JUDGED: "not judged",
}


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
    return _decision(effect, half, max(spread, aa_sd), threshold, f"prediction interval from {len(means)} nights")


def _single_rounds(
    before: Sequence[float], tonight: Sequence[float], higher_is_better: bool, threshold: float, aa_sd: float | None
) -> Decision:
    """One round a side says nothing of its noise; the history may."""
    effect = float(np.log(tonight).mean() - np.log(before).mean()) * (1 if higher_is_better else -1)
    if aa_sd is None:
        advice = "one round a side says nothing of its noise; use rounds = 3 or more, or window:N"
        return Decision("not judged", math.exp(effect), None, None, advice)
    return _decision(effect, 1.96 * aa_sd, aa_sd, threshold, "noise taken from the history")


def _decision(effect: float, half: float, noise: float, threshold: float, basis: str) -> Decision:
    """The rule of `scoring.gate`, for an interval that does not come from Welch."""
    limit = max(threshold, 2 * noise)
    beyond = abs(effect) > half and 1 - math.exp(-abs(effect)) > limit
    verdict: Verdict = ("regression" if effect < 0 else "improved") if beyond else "ok"
    ci = (math.exp(effect - half), math.exp(effect + half))
    return Decision(verdict, math.exp(effect), ci, max(0.0, 1 - limit), f"{basis}; A/A sd {100 * noise:.2f}%")


def night_to_night_sd(nights: Sequence[Sequence[float]]) -> float | None:
    """Standard deviation of the log ratio of one night against the next, from consecutive nights of one series.

    Robust (median of absolute differences), so that one real shift in the past does not blind the gate.

    Returns:
        None below five differences.
    """
    means = [float(np.mean(np.log(night))) for night in nights if len(night) and min(night) > 0]
    steps = np.abs(np.diff(means))
    return float(np.median(steps)) * 1.4826 if len(steps) >= FEWEST_NIGHTS else None


def confirmed(first: Decision, second: Decision, pooled: Decision) -> bool:
    """Whether a second measurement bears out the first.

    Both together must fail the gate, and the second alone must lose at least half of what counts: one wild first
    measurement can't carry the pair.
    """
    if first.verdict != "regression" or pooled.verdict != "regression" or second.ratio is None or second.limit is None:
        return False
    return second.ratio <= 1 - (1 - second.limit) / 2


def decide_answers(
    baseline: tuple[int, int],
    tonight: tuple[int, int],
    pairs: Sequence[tuple[float, float]] | None,
    margin_points: float,
) -> Decision:
    """Whether answers got worse: exact McNemar on paired problems, else Fisher's exact test on the counts.

    Args:
        baseline: (correct, n) of the earlier run.
        tonight: (correct, n) of tonight.
        pairs: share of its samples that was right, and is, for each problem; where both runs list every one.
        margin_points: the profile's parity margin, in points of accuracy.
    """
    if not baseline[1] or not tonight[1]:
        return Decision("not judged", None, None, None, "no problem was asked")
    difference = tonight[0] / tonight[1] - baseline[0] / baseline[1]
    ci = None
    if pairs is not None and any(share not in (0, 1) for pair in pairs for share in pair):
        # Several samples a problem: the problem is the unit.
        _, _, interval = mean_clustered([now - was for was, now in pairs])
        ci = (interval.low, interval.high) if interval else None
        p = 0.0 if interval and not interval.holds(0.0) else 1.0
        evidence = f"mean over {len(pairs)} problems, interval clustered by problem"
    elif pairs is not None:
        lost = sum(was > now for was, now in pairs)
        won = sum(now > was for was, now in pairs)
        p = mcnemar_p(won, lost)
        exact = paired_difference(won, lost, len(pairs))
        ci = (exact.low, exact.high)
        evidence = f"{lost} lost, {won} won of {len(pairs)} problems, McNemar p = {p:.3g}"
    else:
        table = np.array([[baseline[0], baseline[1] - baseline[0]], [tonight[0], tonight[1] - tonight[0]]])
        p = float(stats.fisher_exact(table).pvalue)
        evidence = f"{baseline[0]}/{baseline[1]} -> {tonight[0]}/{tonight[1]}, Fisher p = {p:.3g}"
    verdict: Verdict = "ok"
    if p < 0.05 and abs(difference) * 100 > margin_points:
        verdict = "regression" if difference < 0 else "improved"
    return Decision(verdict, difference, ci, -margin_points / 100, evidence)
