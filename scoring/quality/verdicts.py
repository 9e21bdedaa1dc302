"""Judges the paired differences in answers of all tasks and candidates together."""

from __future__ import annotations

import math
from collections.abc import Sequence

from records import JsonObject
from scoring.quality.accuracy import AnswersPair
from scoring.quality.sampling import PairedProblems
from scoring.statistics.family import FAMILY_ERROR
from scoring.statistics.joint_verdict import BETTER, EQUIVALENT, INCONCLUSIVE, WORSE, Judgement, judge
from scoring.statistics.proportions import PairedTable, discordance, needed_n, settled_margin


def judge_answers(pairs: Sequence[AnswersPair]) -> JsonObject:
    """Add to every pair {verdict, ci_adjusted, p_adjusted, needed_n, text}; all pairs of a report are one family.

    Returns:
        What the report says of the family: {judged, family_error, method}.
    """
    judgements = judge([(evidence, pair["margin"]) for pair, evidence in pairs])
    for (pair, evidence), judgement in zip(pairs, judgements, strict=True):
        words = {"above": BETTER, "below": WORSE, "equivalent": EQUIVALENT}
        pair["verdict"] = words.get(judgement.outcome, INCONCLUSIVE)
        pair["ci_adjusted"] = judgement.interval.as_list() if judgement.interval else None
        pair["p_adjusted"] = judgement.p_adjusted
        pair["needed_n"] = _needed_n(evidence, pair["margin"], judgement)
        pair["text"] = _text(evidence, pair, judgement)
    return {"judged": len(pairs), "family_error": FAMILY_ERROR, "method": "Holm"}


def _needed_n(evidence: PairedTable | PairedProblems, margin: float, judgement: Judgement) -> int | None:
    """The number of problems with which equivalence could be shown; None where it cannot be estimated."""
    if isinstance(evidence, PairedTable):
        share = discordance(evidence.only_candidate, evidence.only_baseline, evidence.n)
        return needed_n(share, margin, judgement.equivalence_level)
    interval = evidence.interval(1 - 2 * judgement.equivalence_level)
    if interval is None:
        return None
    return math.ceil(len(evidence.changes) * ((interval.high - interval.low) / 2 / margin) ** 2)


def _text(evidence: PairedTable | PairedProblems, pair: JsonObject, judgement: Judgement) -> str:
    margin, interval, word = pair["margin"], judgement.interval, pair["verdict"]
    points = "1 point" if margin == 0.01 else f"{100 * margin:.3g} points"
    difference = 100 * pair["difference"]
    if word == EQUIVALENT:
        shown = interval is not None and not interval.holds(0.0) and pair["p_adjusted"] <= FAMILY_ERROR
        note = f", though a difference of {difference:+.2g} points is shown" if shown else ""
        return f"equivalent within {points}{note}"
    if interval is None:
        return "inconclusive: 1 problem has no interval"
    if word in (BETTER, WORSE):
        return f"{difference:+.1f} points [{100 * interval.low:+.1f}, {100 * interval.high:+.1f}], {word}"
    needed = pair["needed_n"]
    if isinstance(evidence, PairedTable):
        n = evidence.n
        if needed <= n:
            return f"inconclusive: the interval reaches beyond {points}"
        share = discordance(evidence.only_candidate, evidence.only_baseline, n)
        settled = 100 * settled_margin(share, n, judgement.equivalence_level)
        problems = "1 problem" if n == 1 else f"{n} problems"
        return f"inconclusive: {problems} can't settle less than {settled:.0f} points; {points} needs n = {needed:,}"
    n = len(evidence.changes)
    half = 100 * (interval.high - interval.low) / 2
    return f"inconclusive: {n} problems leave {half:.0f} points either way; {points} needs n = {max(needed, n + 1):,}"
