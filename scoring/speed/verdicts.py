"""Judges the speed ratios of the deciding figures together; all others stay exploratory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from records import JsonObject
from scoring.metrics import MACHINE, WITHIN_RUN, higher_is_better, ratio_digits
from scoring.statistics.family import FAMILY_ERROR
from scoring.statistics.intervals import Interval
from scoring.statistics.joint_verdict import (
    BETTER,
    EQUIVALENT,
    FASTER,
    INCONCLUSIVE,
    SLOWER,
    WORSE,
    Judgement,
    judge,
)
from scoring.statistics.ratios import LogRatio, grid_blur, opposition, welch
from scoring.statistics.rounds import FEWEST_ROUNDS
from scoring.statistics.sequential import SequentialFamily, needed_rounds

EXPLORATORY, TOO_FEW_ROUNDS, NO_INTERVAL, NO_RATIO = (
    "exploratory",
    f"fewer than {FEWEST_ROUNDS} rounds",
    "no interval",
    "no ratio",
)
"""Why a ratio has no verdict."""

Member = tuple[JsonObject, str, JsonObject, LogRatio]
"""(row, candidate, speed ratio, evidence) of a ratio that gets a verdict."""


def judge_speed(
    rows: Sequence[JsonObject], baseline: str, margin: float, deciding: Sequence[str], *, sequential: bool = False
) -> JsonObject:
    """Add to every speed ratio {deciding, verdict, no_verdict, ci_adjusted, p_adjusted, needed_rounds, text}.

    Only the ratios of the `deciding` metrics get a verdict, and only with FEWEST_ROUNDS rounds a side. They are one
    family over all cells and candidates.

    Args:
        rows: the performance rows of a whole comparison.
        baseline: the engine that the ratios compare with.
        margin: how far from 1 a ratio may be and still count as equally fast, 0.03 for 3%.
        deciding: the metrics that were named before the run.
        sequential: whether the figures were tested after every round (`rounds = "auto"`).

    Returns:
        What the report says of the family: {metrics, judged, family_error, fewest_rounds, margin, opposition, method}.
    """
    family: list[Member] = []
    against = _opposition(rows, baseline, deciding)
    for row in rows:
        for candidate, ratio in row["speed_ratio"].items():
            decides = row["metric"] in deciding
            ratio |= {"deciding": decides, "verdict": None, "ci_adjusted": None, "p_adjusted": None}
            ratio["needed_rounds"] = None
            ratio["no_verdict"] = _why_no_verdict(ratio, decides=decides)
            if ratio["no_verdict"] is None and (evidence := _evidence(row, baseline, candidate, against)):
                family.append((row, candidate, ratio, evidence))
            elif ratio["value"] is not None:
                ratio["text"] = _text_without_verdict(ratio)
    low, high = 1 / (1 + margin), 1 + margin
    log_margin = math.log(high)
    judgements = (
        _judge_by_looks(rows, family, baseline, deciding, log_margin)
        if sequential
        else judge([(evidence, log_margin) for _, _, _, evidence in family])
    )
    for (row, _, ratio, evidence), judgement in zip(family, judgements, strict=True):
        interval = judgement.interval
        assert interval is not None  # rounds always have one
        adjusted = Interval(math.exp(interval.low), math.exp(interval.high))
        # Less energy or memory is "better", not "faster".
        above, below = (BETTER, WORSE) if row["metric"] in MACHINE else (FASTER, SLOWER)
        word = {"above": above, "below": below, "equivalent": EQUIVALENT}.get(judgement.outcome, INCONCLUSIVE)
        note = {EQUIVALENT: f" within {100 * margin:.3g}%", INCONCLUSIVE: ": more rounds would narrow it"}.get(word, "")
        ratio["verdict"] = word
        ratio["ci_adjusted"] = adjusted.as_list()
        ratio["p_adjusted"] = judgement.p_adjusted
        ratio["text"] = f"{_figure(ratio['value'], adjusted)}, {word}{note}"
        if word == INCONCLUSIVE:
            levels = 1 - judgement.confidence, judgement.equivalence_level
            ratio["needed_rounds"] = needed_rounds(evidence, min(ratio["rounds"]), log_margin, *levels)
    return {
        "metrics": list(deciding),
        "judged": len(family),
        "family_error": FAMILY_ERROR,
        "fewest_rounds": FEWEST_ROUNDS,
        "margin": [low, high],
        "opposition": against,
        "method": "Holm over group-sequential looks" if sequential else "Holm",
    }


def _why_no_verdict(ratio: JsonObject, *, decides: bool) -> str | None:
    if ratio["value"] is None:
        return NO_RATIO
    if not decides:
        return EXPLORATORY
    if min(ratio["rounds"]) < FEWEST_ROUNDS:
        return TOO_FEW_ROUNDS
    return NO_INTERVAL if ratio["ci"] is None else None


def _judge_by_looks(
    rows: Sequence[JsonObject], family: Sequence[Member], baseline: str, deciding: Sequence[str], margin: float
) -> list[Judgement]:
    """Judge the figures after every round, as the driver did during the run."""
    looks = SequentialFamily(len(family))
    most = max(
        (int(r) for row, *_ in family for figure in row["engines"].values() for r in figure["rounds"]), default=0
    )
    for rounds in range(FEWEST_ROUNDS, most + 1):
        against = _opposition(rows, baseline, deciding, rounds)
        evidence = [_evidence(row, baseline, candidate, against, rounds) for row, candidate, _, _ in family]
        looks.look(rounds, [(each, margin) if each else None for each in evidence])
    return [judgement for judgement in looks.judgements if judgement is not None]


def _opposition(rows: Sequence[JsonObject], baseline: str, deciding: Sequence[str], upto: int | None = None) -> float:
    """The share by which candidates and baseline vary against each other within rounds, over all deciding figures."""
    pairs = []
    for row in rows:
        for candidate in row["speed_ratio"] if row["metric"] in deciding else ():
            ours, base = (_upto(known_rounds(row["engines"][engine]), upto) for engine in (candidate, baseline))
            common = [number for number in ours if number in base and min(ours[number], base[number]) > 0]
            pairs.append(([ours[number] for number in common], [base[number] for number in common]))
    return opposition(pairs)


def _evidence(
    row: JsonObject, baseline: str, candidate: str, against: float, upto: int | None = None
) -> LogRatio | None:
    """The evidence of the rounds (`upto`: of the first ones); None with fewer than FEWEST_ROUNDS a side."""
    rounds = [list(_upto(known_rounds(row["engines"][engine]), upto).values()) for engine in (candidate, baseline)]
    if min(map(len, rounds)) < FEWEST_ROUNDS:
        return None
    blur = grid_blur(*(row["engines"][engine].get("resolution") for engine in (candidate, baseline)))
    sides = rounds if higher_is_better(row["metric"]) else rounds[::-1]
    return welch(*sides, blur=blur, opposition=against)


def _upto(rounds: dict[int, float], last: int | None) -> dict[int, float]:
    return rounds if last is None else {number: value for number, value in rounds.items() if number <= last}


def known_rounds(figure: JsonObject) -> dict[int, float]:
    """An engine's figure by round, without rounds in which it is unknown."""
    return {int(number): value for number, value in figure["rounds"].items() if value is not None}


def _text_without_verdict(ratio: JsonObject) -> str:
    figure = _figure(ratio["value"], Interval(*ratio["ci"]) if ratio["ci"] else None)
    within = " within one round" if ratio["method"] == WITHIN_RUN else ""
    if ratio["no_verdict"] == EXPLORATORY:
        return f"{figure}{within}"
    return f"{figure}{within}, no verdict: {ratio['no_verdict']}"


def _figure(value: float, interval: Interval | None) -> str:
    if interval is None:
        return f"{value:.2f}x"
    digits = ratio_digits(interval.low, interval.high)
    return f"{value:.{digits}f}x [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
