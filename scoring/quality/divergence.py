"""Measures how far the texts of two engines agree (A/B), and how far one engine agrees with itself (A/A).

Texts are paired by prompt and sample. Without A/A, a share of different texts between two engines proves nothing:
greedy decoding is not deterministic in every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from records import JsonObject
from scoring.captures import Capture

Key = tuple[str, int]
"""(prompt_id, sample)."""


@dataclass(frozen=True, slots=True)
class Answered:
    """One completion: its text including thoughts, and the answer extracted from it."""

    text: str
    answer: str | None = None


def first_difference(a: str, b: str) -> int | None:
    """Index of the first character that differs (the shorter's length where it is a prefix); None for equal texts."""
    if a == b:
        return None
    low, high = 0, min(len(a), len(b))
    while low < high:  # slices compare at the speed of memory
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[:middle] == b[:middle] else (low, middle - 1)
    return low


def divergence(a: Mapping[Key, Answered], b: Mapping[Key, Answered], *, answers: bool = False) -> JsonObject | None:
    """Compare the completions of the prompts that both sides answered without an error.

    Returns:
        {n, exact_match, first_difference: {p10, p50, p90} in characters of the pairs that differ,
        prefix_share: {p10, p50, p90} (common prefix / longer text, 1 for equal texts), length_ratio: {p10, p50, p90}
        (b / a), answer_agreement (None unless `answers`)}; None where no prompt is in both.
    """
    keys = sorted(a.keys() & b.keys())
    if not keys:
        return None
    firsts, shares, ratios = [], [], []
    same = agree = 0
    for key in keys:
        left, right = a[key].text, b[key].text
        at = first_difference(left, right)
        same += at is None
        agree += a[key].answer == b[key].answer
        if at is not None:
            firsts.append(at)
        shares.append(1.0 if at is None else at / max(len(left), len(right)))
        if left:
            ratios.append(len(right) / len(left))
    return {
        "n": len(keys),
        "exact_match": same / len(keys),
        "first_difference": _spread(firsts),
        "prefix_share": _spread(shares),
        "length_ratio": _spread(ratios),
        "answer_agreement": agree / len(keys) if answers else None,
    }


def _spread(values: list[int] | list[float]) -> JsonObject | None:
    if not values:
        return None
    low, middle, high = np.percentile(values, [10, 50, 90])
    return {"p10": float(low), "p50": float(middle), "p90": float(high)}


def mean_of(pairs: list[JsonObject]) -> JsonObject | None:
    """The mean of each figure over several comparisons of the same kind (one per pair of rounds)."""
    if not pairs:
        return None
    merge: Callable[[str], float | None] = lambda key: _mean([pair[key] for pair in pairs])  # noqa: E731
    merged: JsonObject = {"pairs": len(pairs), "n": pairs[0]["n"]}
    for key in ("exact_match", "answer_agreement"):
        merged[key] = merge(key)
    for key in ("first_difference", "prefix_share", "length_ratio"):
        spreads = [pair[key] for pair in pairs if pair[key] is not None]
        merged[key] = {p: _mean([spread[p] for spread in spreads]) for p in ("p10", "p50", "p90")} if spreads else None
    return merged


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def texts_of(capture: Capture) -> dict[Key, Answered]:
    """The completions of a cell that is not graded: the last good one of each prompt and sample."""
    measured = capture.measured
    good = measured[measured["ok"]]
    return {
        (str(prompt_id), int(sample)): Answered(capture.reasonings[row] + capture.texts[row])
        for row, prompt_id, sample in zip(good.index, good["prompt_id"], good["sample"], strict=True)
    }


def rows(
    texts: Mapping[str, Sequence[Mapping[Key, Answered]]], baseline: str, *, answers: bool = False
) -> list[JsonObject]:
    """A/A of every engine with several rounds, then A/B of the baseline against each candidate, round by round.

    Returns:
        Rows {a, b, kind: "A/A" or "A/B", pairs, n, exact_match, ...}.
    """
    lines = []
    for engine, rounds in texts.items():
        repeats = [divergence(x, y, answers=answers) for i, x in enumerate(rounds) for y in rounds[i + 1 :]]
        if line := mean_of([pair for pair in repeats if pair]):
            lines.append({"a": engine, "b": engine, "kind": "A/A"} | line)
    for engine, rounds in texts.items():
        if engine != baseline and baseline in texts:
            pairs = [divergence(x, y, answers=answers) for x, y in zip(texts[baseline], rounds, strict=False)]
            if line := mean_of([pair for pair in pairs if pair]):
                lines.append({"a": baseline, "b": engine, "kind": "A/B"} | line)
    return lines
