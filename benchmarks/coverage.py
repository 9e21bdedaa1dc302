"""Coverage of the intervals that claims rest on: exact, by enumerating every outcome; no simulation noise.

    python -m benchmarks.coverage [--json]

Must hold: at n = 30, 50 and 1319 and accuracies from 0.02 to 0.98, a 95% interval covers on average within 2
points of 95%, and nowhere less than 90%. Wilson's interval is summed over the binomial distribution; the paired
difference over the trinomial of discordant problems, for several shares of discordance and true differences. Newcombe's
interval for pairs (method 10, 1998) is computed beside it, over random tables, as the one that was not chosen.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from scoring.statistics.intervals import Interval
from scoring.statistics.proportions import EQUIVALENCE_CONFIDENCE, paired_difference, wilson

Floats = NDArray[np.float64]

SIZES = (30, 50, 1319)
ACCURACIES = np.round(np.linspace(0.02, 0.98, 49), 3)
DIFFERENCES = (0.0, 0.01, 0.02, 0.05, 0.10)
NEGLIGIBLE = 1e-9


def wilson_coverage(n: int, confidence: float) -> list[float]:
    """Exact coverage of Wilson's interval at each accuracy."""
    intervals = [wilson(k, n, confidence) for k in range(n + 1)]
    found = []
    for accuracy in ACCURACIES:
        weights = stats.binom.pmf(np.arange(n + 1), n, accuracy)
        found.append(float(sum(w for w, ci in zip(weights, intervals, strict=True) if ci.holds(accuracy))))
    return found


def cases() -> Iterable[tuple[float, float, float]]:
    """(accuracy of the baseline, probability of only the candidate, of only the baseline) that can be."""
    for accuracy in ACCURACIES[::2]:
        for difference in DIFFERENCES:
            for sign in (1, -1) if difference else (1,):
                other = accuracy + sign * difference
                if not 0.02 <= other <= 0.98:
                    continue
                # From half as discordant as independent engines are, to fully independent ones.
                independent = accuracy * (1 - other) + other * (1 - accuracy)
                for share in (0.5, 1.0):
                    discordant = max(independent * share, difference)
                    yield float(accuracy), (discordant + sign * difference) / 2, (discordant - sign * difference) / 2


class PairedIntervals:
    """Tango's intervals by (only candidate, only baseline), each computed once."""

    def __init__(self, n: int, confidence: float) -> None:
        self.n, self.confidence = n, confidence
        self._known: dict[tuple[int, int], Interval] = {}

    def __call__(self, b: int, c: int) -> Interval:
        if (b, c) not in self._known:
            self._known[b, c] = paired_difference(b, c, self.n, self.confidence)
        return self._known[b, c]


def paired_coverage(n: int, confidence: float) -> list[float]:
    """Exact coverage for n up to a few hundred; of the outcomes that together are all but 1e-9 of the probability."""
    intervals = PairedIntervals(n, confidence)
    found = []
    for _, pb, pc in cases():
        covered = total = 0.0
        for b in _likely(n, pb):
            weight_b = float(stats.binom.pmf(b, n, pb))
            rest = pc / (1 - pb) if pb < 1 else 0.0
            ks = _likely(n - b, rest)
            weights = weight_b * stats.binom.pmf(ks, n - b, rest)
            for c, weight in zip(ks, weights, strict=True):
                total += weight
                if intervals(int(b), int(c)).holds(pb - pc):
                    covered += weight
        found.append(covered / total)
    return found


def _likely(n: int, p: float) -> NDArray[np.int64]:
    low, high = float(stats.binom.ppf(NEGLIGIBLE, n, p)), float(stats.binom.ppf(1 - NEGLIGIBLE, n, p))
    return np.arange(max(0, int(low)), min(n, int(high)) + 1)


def paired_coverage_sampled(n: int, confidence: float, draws: int, rng: np.random.Generator) -> list[float]:
    """For large n: `draws` tables a case (standard error below half a point), each different table looked at once."""
    intervals = PairedIntervals(n, confidence)
    found = []
    for _, pb, pc in cases():
        tables, counts = np.unique(rng.multinomial(n, [pb, pc, 1 - pb - pc], draws)[:, :2], axis=0, return_counts=True)
        held = [intervals(int(b), int(c)).holds(pb - pc) for b, c in tables]
        found.append(float(np.average(held, weights=counts)))
    return found


def newcombe(both: int, b: int, c: int, neither: int, confidence: float) -> Interval:
    """Newcombe's method 10 (1998): Wilson intervals of the margins, squared and added, with their correlation."""
    n = both + b + c + neither
    p1, p2 = (both + b) / n, (both + c) / n
    w1, w2 = wilson(both + b, n, confidence), wilson(both + c, n, confidence)
    product = (both + b) * (c + neither) * (both + c) * (b + neither)
    numerator = float(both * neither - b * c)
    if numerator > 0:
        numerator = max(numerator - n / 2, 0.0)
    phi = numerator / math.sqrt(product) if product else 0.0
    dl1, du1, dl2, du2 = p1 - w1.low, w1.high - p1, p2 - w2.low, w2.high - p2
    low = math.sqrt(max(0.0, dl1**2 - 2 * phi * dl1 * du2 + du2**2))
    high = math.sqrt(max(0.0, du1**2 - 2 * phi * du1 * dl2 + dl2**2))
    return Interval(p1 - p2 - low, p1 - p2 + high)


def newcombe_coverage(n: int, confidence: float, draws: int, rng: np.random.Generator) -> list[float]:
    """Coverage of Newcombe's interval over `draws` tables a case."""
    found = []
    for accuracy, pb, pc in cases():
        both = accuracy - pc
        chances = np.clip([both, pb, pc, 1 - both - pb - pc], 0, 1)
        tables, counts = np.unique(rng.multinomial(n, chances / chances.sum(), draws), axis=0, return_counts=True)
        held = [newcombe(int(a), int(b), int(c), int(d), confidence).holds(pb - pc) for a, b, c, d in tables]
        found.append(float(np.average(held, weights=counts)))
    return found


def main() -> int:
    """Print the table; exit code 1 where an interval misses what it must hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--draws", type=int, default=4000)
    asked = parser.parse_args()
    rng = np.random.default_rng(20260101)
    rows: list[tuple[str, int, float, list[float]]] = []
    for n in SIZES:
        for confidence in (0.95, EQUIVALENCE_CONFIDENCE):
            rows.append(("Wilson", n, confidence, wilson_coverage(n, confidence)))
            exact = n <= 50
            tango = (
                paired_coverage(n, confidence) if exact else paired_coverage_sampled(n, confidence, asked.draws, rng)
            )
            rows.append(("paired (Tango)", n, confidence, tango))
        rows.append(("paired (Newcombe, not used)", n, 0.95, newcombe_coverage(n, 0.95, asked.draws // 2, rng)))
    if asked.json:
        keys = ("interval", "n", "nominal", "mean", "worst")
        print(json.dumps([dict(zip(keys, (*row[:3], *summary(row[3])), strict=True)) for row in rows], indent=1))
    else:
        print("| interval | n | nominal | mean coverage | worst | cases |\n| --- | --- | --- | --- | --- | --- |")
        for name, n, nominal, found in rows:
            mean, worst = summary(found)
            print(f"| {name} | {n} | {nominal:.0%} | {mean:.1%} | {worst:.1%} | {len(found)} |")
    missed = False
    for name, _, nominal, found in rows:
        mean, worst = summary(found)
        if "not used" not in name:
            missed |= abs(mean - nominal) > 0.02 or (nominal == 0.95 and worst < 0.90)
    return int(missed)


def summary(coverage: list[float]) -> tuple[float, float]:
    """(mean, worst)."""
    return float(np.mean(coverage)), float(np.min(coverage))


if __name__ == "__main__":
    raise SystemExit(main())
