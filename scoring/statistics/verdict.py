"""Verdicts in words, three-valued: different, equivalent, or inconclusive and then what would settle it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scoring.metrics import WITHIN_RUN, ratio_digits
from scoring.statistics.intervals import (
    EQUIVALENCE_CONFIDENCE,
    Interval,
    Ratio,
    discordance,
    mcnemar_p,
    needed_n,
    paired_difference,
    settled_margin,
)

FASTER, SLOWER, EQUIVALENT, INCONCLUSIVE = "faster", "slower", "equivalent", "inconclusive"
BETTER, WORSE = "better", "worse"

BLIND_NOTE = " (one run each: blind to run noise)"


@dataclass(frozen=True, slots=True)
class Words:
    """A verdict: the short word and the sentence."""

    word: str
    text: str


def speed(ratio: Ratio, margin: float, words: tuple[str, str] = (FASTER, SLOWER)) -> Words:
    """The verdict on a speed ratio (above 1: the candidate is faster), in the words for above and below 1.

    Equivalent is an interval inside [1 / (1 + margin), 1 + margin]. With one run a side the interval knows nothing of
    the noise from run to run, so a difference then has to clear the margin as well.
    """
    if ratio.ci is None:
        return Words(INCONCLUSIVE, f"{ratio.value:.2f}x, inconclusive: no interval")
    digits = ratio_digits(ratio.ci.low, ratio.ci.high)
    figure = f"{ratio.value:.{digits}f}x [{ratio.ci.low:.{digits}f}, {ratio.ci.high:.{digits}f}]"
    low, high = 1 / (1 + margin), 1 + margin
    blind = ratio.method == WITHIN_RUN
    note = BLIND_NOTE if blind else ""
    if ratio.ci.within(low, high):
        return Words(EQUIVALENT, f"{figure}, equivalent within {100 * margin:.3g}%{note}")
    bar_low, bar_high = (low, high) if blind else (1.0, 1.0)
    if ratio.ci.low > bar_high:
        return Words(words[0], f"{figure}, {words[0]}{note}")
    if ratio.ci.high < bar_low:
        return Words(words[1], f"{figure}, {words[1]}{note}")
    return Words(INCONCLUSIVE, f"{figure}, inconclusive{note or ': more rounds would narrow it'}")


@dataclass(frozen=True, slots=True)
class Paired:
    """Two engines on the same problems. Differences are candidate - baseline, as shares."""

    n: int
    both: int
    only_candidate: int
    only_baseline: int
    neither: int
    difference: float
    ci: Interval
    ci_equivalence: Interval
    mcnemar_p: float
    needed_n: int
    words: Words


def paired(both: int, only_candidate: int, only_baseline: int, neither: int, margin: float) -> Paired:
    """Judge a 2 x 2 table of answers.

    Equivalent: the 90% interval of the difference lies inside the margin. Different: the 95% interval excludes 0 and
    the exact McNemar test agrees (p < 0.05). Else inconclusive, with the n that would settle it.

    `margin` is the share of problems that counts as parity, fixed beforehand in the profile (0.02 is 2 points).

    Raises:
        ValueError: there is no problem.
    """
    n = both + only_candidate + only_baseline + neither
    ci = paired_difference(only_candidate, only_baseline, n)
    narrow = paired_difference(only_candidate, only_baseline, n, EQUIVALENCE_CONFIDENCE)
    p = mcnemar_p(only_candidate, only_baseline)
    share = discordance(only_candidate, only_baseline, n)
    needed = needed_n(share, margin)
    difference = (only_candidate - only_baseline) / n
    points = f"{100 * margin:.3g} points" if margin != 0.01 else "1 point"
    different = p < 0.05 and not ci.holds(0)
    if narrow.within(-margin, margin):
        note = f", though a difference of {100 * difference:+.2g} points is shown" if different else ""
        words = Words(EQUIVALENT, f"equivalent within {points}{note}")
    elif different:
        word = BETTER if difference > 0 else WORSE
        words = Words(word, f"{100 * difference:+.1f} points [{100 * ci.low:+.1f}, {100 * ci.high:+.1f}], {word}")
    else:
        settles = 100 * settled_margin(share, n)
        words = Words(
            INCONCLUSIVE,
            f"inconclusive: {n} {'problem' if n == 1 else 'problems'} can't settle less than {settles:.0f} points; "
            f"{points} needs n = {needed:,}"
            if needed > n
            else f"inconclusive: the interval reaches beyond {points}",
        )
    return Paired(n, both, only_candidate, only_baseline, neither, difference, ci, narrow, p, needed, words)


def clustered_needed_n(narrow: Interval | None, margin: float, n: int) -> int | None:
    """The problems with which an interval clustered by problem would be as narrow as the margin; None without one."""
    if narrow is None:
        return None
    return math.ceil(n * ((narrow.high - narrow.low) / 2 / margin) ** 2)


def clustered(
    difference: float, ci: Interval | None, narrow: Interval | None, margin: float, n: int, *, few: bool = False
) -> Words:
    """The same three outcomes for k samples a problem, from intervals clustered by problem.

    `few` says that fewer problems differ than any exact test could call a difference.
    """
    points = f"{100 * margin:.3g} points"
    if ci is None or narrow is None:
        return Words(INCONCLUSIVE, f"inconclusive: {n} problem has no interval")
    if narrow.within(-margin, margin):
        return Words(EQUIVALENT, f"equivalent within {points}")
    if not ci.holds(0) and not few:
        word = BETTER if difference > 0 else WORSE
        return Words(word, f"{100 * difference:+.1f} points [{100 * ci.low:+.1f}, {100 * ci.high:+.1f}], {word}")
    needed = clustered_needed_n(narrow, margin, n) or 0
    return Words(
        INCONCLUSIVE,
        f"inconclusive: {n} problems leave {100 * (ci.high - ci.low) / 2:.0f} points either way; "
        f"{points} needs n = {max(needed, n + 1):,}",
    )
