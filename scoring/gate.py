"""The nightly gate on one figure: pure functions over the rounds' values of a baseline and a candidate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scoring.statistics import Interval, welch_ratio

OK, REGRESSION, IMPROVEMENT, NOT_JUDGED = "ok", "regression", "improvement", "not judged"


@dataclass(frozen=True, slots=True)
class GateResult:
    """What the gate says. `ratio` is the speed ratio candidate / baseline, below 1 slower."""

    verdict: str
    ratio: float | None
    ci: Interval | None
    limit: float | None
    """The effect, as a share, that has to be exceeded."""
    text: str

    @property
    def fails(self) -> bool:
        return self.verdict == REGRESSION


def gate(
    samples_baseline: Sequence[float],
    samples_candidate: Sequence[float],
    aa_noise: float | None = None,
    threshold: float = 0.03,
    *,
    better: str = "higher",
) -> GateResult:
    """Fail where the 95% interval of the speed ratio excludes 1 and the effect exceeds max(threshold, 2 x A/A noise).

    Args:
        samples_baseline: one figure for each run of the baseline, all positive.
        samples_candidate: the same of the candidate.
        aa_noise: standard deviation of the log ratio of K runs against K runs of one engine; None takes it from the
            samples themselves.
        threshold: the least effect that counts, as a share.
        better: "higher" for a throughput, "lower" for a latency.

    Returns:
        "not judged" with fewer than two runs on a side, or a figure that is not positive.
    """
    if min(len(samples_baseline), len(samples_candidate)) < 2 or min(*samples_baseline, *samples_candidate) <= 0:
        return GateResult(NOT_JUDGED, None, None, None, "not judged: two runs with positive figures a side are needed")
    above, below = (
        (samples_candidate, samples_baseline) if better == "higher" else (samples_baseline, samples_candidate)
    )
    found = welch_ratio(above, below)
    assert found.ci is not None
    noise = aa_sd(samples_baseline, samples_candidate) if aa_noise is None else aa_noise
    limit = max(threshold, 2 * noise)
    effect = abs(1 - found.value) if found.value < 1 else abs(1 - 1 / found.value)
    beyond = not found.ci.holds(1.0) and effect > limit
    verdict = (REGRESSION if found.value < 1 else IMPROVEMENT) if beyond else OK
    text = (
        f"{found.value:.3f}x [{found.ci.low:.3f}, {found.ci.high:.3f}], {verdict}: effect {100 * effect:.1f}%,"
        f" limit {100 * limit:.1f}% (A/A sd {100 * noise:.1f}%)"
    )
    return GateResult(verdict, found.value, found.ci, limit, text)


def aa_sd(a: Sequence[float], b: Sequence[float]) -> float:
    """Standard deviation of the log ratio of two means of runs, from the spread of the runs within each side."""
    logs_a, logs_b = np.log(a), np.log(b)
    return math.sqrt(float(logs_a.var(ddof=1)) / len(a) + float(logs_b.var(ddof=1)) / len(b))
