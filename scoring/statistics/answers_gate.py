"""The nightly gate on answers: did accuracy get worse, beyond chance and beyond the parity margin?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from scoring.quality.sampling import PairedProblems
from scoring.statistics.gate import FALSE_NIGHTS, Decision, Verdict
from scoring.statistics.proportions import mcnemar_p


def decide_answers(
    baseline: tuple[int, int],
    tonight: tuple[int, int],
    pairs: Sequence[tuple[float, float]] | None,
    margin_points: float,
    *,
    figures: int = 1,
) -> Decision:
    """Decide whether answers got worse: by paired problems where available, else by Fisher's exact test on the counts.

    Paired problems are judged by the exact McNemar test. With several samples per problem, by the interval clustered by
    problem, unless too few problems differ to estimate their spread.

    Args:
        baseline: (correct, n) of the earlier run.
        tonight: (correct, n) of tonight.
        pairs: for each problem, the share of right samples (before, tonight); None unless both runs list every problem.
        margin_points: the profile's parity margin, in points of accuracy.
        figures: number of figures that the night judges; each is tested at FALSE_NIGHTS divided by it.
    """
    if not baseline[1] or not tonight[1]:
        return Decision("not judged", None, None, None, "no problem was asked")
    error = FALSE_NIGHTS / max(figures, 1)
    difference = tonight[0] / tonight[1] - baseline[0] / baseline[1]
    ci = None
    if pairs is not None:
        problems = PairedProblems([now - was for was, now in pairs])
        lost, won = problems.lost, problems.gained
        p, interval = mcnemar_p(won, lost), problems.flips.interval()
        evidence = f"{lost} lost, {won} won of {len(pairs)} problems, McNemar p = {p:.3g}"
        several_samples = any(share not in (0, 1) for pair in pairs for share in pair)
        if several_samples and not problems.few and (clustered := problems.interval(1 - error)):
            interval = clustered
            p = 1.0 if interval.holds(0.0) else 0.0
            evidence = f"mean over {len(pairs)} problems, interval clustered by problem"
        ci = (interval.low, interval.high)
    else:
        table = np.array([[baseline[0], baseline[1] - baseline[0]], [tonight[0], tonight[1] - tonight[0]]])
        p = float(stats.fisher_exact(table).pvalue)
        evidence = f"{baseline[0]}/{baseline[1]} -> {tonight[0]}/{tonight[1]}, Fisher p = {p:.3g}"
    verdict: Verdict = "ok"
    if p < error and abs(difference) * 100 > margin_points:
        verdict = "regression" if difference < 0 else "improved"
    return Decision(verdict, difference, ci, -margin_points / 100, evidence)
