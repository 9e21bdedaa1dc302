"""What the statistics find and how often they cry wolf, simulated with known truth.

    python -m benchmarks.statistics_power [--nights 20000]

Must hold: with 2% run noise and 5 interleaved repeats, at most 2% false alarms, and a 5% slowdown found in at
least 90% of nights. Beside it, why the run is the unit: the share of A/A comparisons that pooled requests would call
different, and Welch's on runs; and how often paired answers of equal engines are called different.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np
from scipy import stats

from scoring.statistics.gate import decide_side_by_side
from scoring.statistics.joint_verdict import judge
from scoring.statistics.proportions import PairedTable
from scoring.statistics.ratios import welch

RUN_NOISE, REPEATS, THRESHOLD = 0.02, 5, 0.03


def share_failing(speed: float, nights: int, rng: np.random.Generator) -> float:
    """Share of nights on which the gate calls one of two engines slower; `speed` is the true ratio, 0.95 for 5% slower.

    The gate against earlier nights has a simulation of its own (benchmarks/nightly_simulation.py).
    """
    fails = 0
    for _ in range(nights):
        base = 100 * np.exp(rng.normal(0, RUN_NOISE, REPEATS))
        cand = 100 * speed * np.exp(rng.normal(0, RUN_NOISE, REPEATS))
        fails += decide_side_by_side(base.tolist(), cand.tolist(), higher_is_better=True, threshold=THRESHOLD).fails
    return fails / nights


def aa_called_different(nights: int, rng: np.random.Generator) -> tuple[float, float]:
    """(pooled requests with a t test, runs with Welch): share of A/A comparisons that are called different at 5%."""
    pooled = by_run = 0
    for _ in range(nights):
        runs = np.exp(rng.normal(0, RUN_NOISE, (2, REPEATS)))
        requests = runs[..., None] * np.exp(rng.normal(0, 0.08, (2, REPEATS, 60)))
        flat = np.log(requests.reshape(2, -1))
        pooled += stats.ttest_ind(flat[0], flat[1]).pvalue < 0.05
        medians = np.median(requests, axis=2)
        by_run += welch(medians[0].tolist(), medians[1].tolist()).p_difference() < 0.05
    return pooled / nights, by_run / nights


def quality_outcomes(n: int, accuracy: float, discordant: float, nights: int, rng: np.random.Generator) -> Counter[str]:
    """What two engines of equal accuracy are called, by the outcome of the verdict, within 2 points."""
    half = discordant / 2
    tables, counts = np.unique(
        rng.multinomial(n, [accuracy - half, half, half, 1 - accuracy - half], nights), axis=0, return_counts=True
    )
    words: Counter[str] = Counter()
    for (_, won, lost, _), count in zip(tables, counts, strict=True):
        words[judge([(PairedTable(int(won), int(lost), n), 0.02)])[0].outcome] += int(count)
    return words


def main() -> int:
    """Print the shares; exit code 1 where the gate misses what it must hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=20_000)
    nights = parser.parse_args().nights
    rng = np.random.default_rng(20260101)
    alarms, found = (share_failing(speed, nights, rng) for speed in (1.0, 0.95))
    known = "gate, two engines of one night"
    print(f"{known}: false alarms {alarms:.2%}, a 5% slowdown found {found:.1%}, of {nights} nights")
    for speed in (0.97, 0.94, 0.90):
        print(f"{known}: a {1 - speed:.0%} slowdown found {share_failing(speed, nights // 4, rng):.1%}")
    pooled, by_run = aa_called_different(nights // 10, rng)
    print(f"A/A called different: pooled requests {pooled:.1%}, runs as units {by_run:.1%}")
    for n, accuracy, discordant in ((30, 0.2, 0.15), (50, 0.95, 0.04), (1319, 0.92, 0.03), (1319, 0.92, 0.06)):
        words = quality_outcomes(n, accuracy, discordant, nights, rng)
        told = ", ".join(f"{word} {count / nights:.1%}" for word, count in sorted(words.items()))
        print(f"equal answers, n = {n}, accuracy {accuracy:.0%}, {discordant:.0%} discordant: {told}")
    return 0 if alarms <= 0.02 and found >= 0.90 else 1


if __name__ == "__main__":
    raise SystemExit(main())
