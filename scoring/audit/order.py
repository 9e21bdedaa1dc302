"""Audit check "order and drift": do time, or the engine's place in the round, explain differences between rounds?

The order within each round is drawn at random and balanced, so in the long run it favours no engine. This check
subtracts each engine's mean from its deciding figures, and tests whether the residuals follow time or the place in the
round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from records import JsonObject
from scoring.audit.model import Finding, not_applicable, passed, warned
from scoring.speed.verdicts import known_rounds
from scoring.statistics.family import holm
from scoring.statistics.rounds import FEWEST_ROUNDS

Order = Sequence[tuple[str, int]]
"""(engine, round) of every engine process of a run, in the order in which they ran."""

TIME, PLACE = "time", "place in the round"


def order_row(rows: Sequence[JsonObject], order: Order, engines: Sequence[str], deciding: Sequence[str]) -> JsonObject:
    """The audit row of the whole run: one warning for all figures that drift, at a family-wise error of 5%."""
    finding = _finding(rows, order, deciding)
    return {
        "check": "order and drift",
        "engine": " / ".join(engines),
        "cell": None,
        "status": finding.status.value,
        "evidence": finding.evidence,
    }


def _finding(rows: Sequence[JsonObject], order: Order, deciding: Sequence[str]) -> Finding:
    if not order:
        return not_applicable("the order of the engines was not recorded")
    tests = []
    for row in rows:
        if row["metric"] in deciding:
            for regressor in (TIME, PLACE):
                test = trend(row["engines"], order, regressor)
                if test is not None:
                    tests.append((row, regressor, *test))
    if not tests:
        return not_applicable(f"needs {FEWEST_ROUNDS} rounds of two engines")
    steps = holm([p for _, _, _, p in tests])
    worst = min(range(len(tests)), key=lambda index: steps[index].p_adjusted)
    row, regressor, slope, _ = tests[worst]
    p = f"p = {steps[worst].p_adjusted:.2g} over {len(tests)} tests"
    if not steps[worst].rejected:
        return passed(f"neither time nor the place in the round explains a deciding figure ({p})")
    per = "a round's half" if regressor == PLACE else "from one engine start to the next"
    more = sum(step.rejected for step in steps) - 1
    return warned(
        f"{row['metric']} of {row['cell']} follows the {regressor}: {100 * math.expm1(slope):+.2g}% {per} ({p}"
        f"{f'; {more} more' if more else ''}); the machine was not steady, which the intervals include"
    )


def trend(engines: JsonObject, order: Order, regressor: str) -> tuple[float, float] | None:
    """(slope, p-value) of the logarithms on time or place, with a mean per engine; None with too few rounds.

    Ordinary least squares within engines: residual degrees of freedom are n - engines - 1.
    """
    numbers: dict[str, dict[int, float]] = {
        engine: {number: math.log(value) for number, value in known_rounds(figure).items() if value > 0}
        for engine, figure in engines.items()
    }
    places: dict[int, int] = {}
    x, y = [], []
    sizes = []
    values: dict[str, list[tuple[float, float]]] = {}
    for index, (engine, number) in enumerate(order):
        place = places[number] = places.get(number, -1) + 1
        if number in numbers.get(engine, {}):
            at = float(index if regressor == TIME else place)
            values.setdefault(engine, []).append((at, numbers[engine][number]))
    for pairs in values.values():
        at, logs = np.array(pairs).T
        x.append(at - at.mean())
        y.append(logs - logs.mean())
        sizes.append(len(pairs))
    if len(sizes) < 2 or min(sizes) < FEWEST_ROUNDS:
        return None
    across, along = np.concatenate(x), np.concatenate(y)
    spread = float(across @ across)
    if spread == 0:
        return None
    slope = float(across @ along) / spread
    df = len(across) - len(sizes) - 1
    rest = along - slope * across
    error = math.sqrt(float(rest @ rest) / df / spread)
    if error < 1e-12:
        return slope, 1.0 if abs(slope) < 1e-12 else 0.0
    return slope, 2 * float(special.stdtr(df, -abs(slope) / error))
