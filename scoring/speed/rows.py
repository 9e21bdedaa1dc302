"""Builds the performance rows of a cell: every engine's figure with its interval, and each candidate's speed ratio.

The ratios have no verdict yet: `scoring.speed.verdicts` judges the ratios of all cells together.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from records import JsonObject
from scoring.metrics import CAPACITY, METRICS, RATES, WITHIN_RUN, unit_and_better
from scoring.speed.latency import CellFigures
from scoring.statistics.intervals import Interval
from scoring.statistics.ratios import (
    bootstrap_mean,
    bootstrap_quantile,
    geometric_interval,
    geometric_mean,
    grid_blur,
    percentile_interval,
    welch,
)

Floats = NDArray[np.float64]

_QUANTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}

Rounds = Sequence[tuple[int, CellFigures]]


def performance_rows(
    cell: str,
    scenario: str,
    workload: str,
    engines: Mapping[str, Rounds],
    baseline: str,
    *,
    metrics: Sequence[str] = METRICS,
) -> list[JsonObject]:
    """One row per metric for which any engine has a figure.

    `engines` has the cell's rounds of each engine. A cell that searched a capacity has only the row of the capacity.
    A row's `concurrency` is the number of requests that the load kept in flight; None for an open loop, a sweep or a
    ramp.
    """
    rows = []
    asked = {figures.steady.asked for rounds in engines.values() for _, figures in rounds}
    concurrency = asked.pop() if len(asked) == 1 else None
    searched = any(figures.searched for rounds in engines.values() for _, figures in rounds)
    for metric in metrics:
        if (metric in CAPACITY) != searched:
            continue
        side = {engine: _Figure(cell, metric, engine, rounds) for engine, rounds in engines.items()}
        if not any(metric in figures.values for rounds in engines.values() for _, figures in rounds):
            continue
        unit, better = unit_and_better(metric)
        rows.append(
            {
                "cell": cell,
                "scenario": scenario,
                "workload": workload,
                "concurrency": concurrency,
                "metric": metric,
                "unit": unit,
                "better": better,
                "engines": {engine: figure.to_json() for engine, figure in side.items()},
                "speed_ratio": {
                    engine: _speed_ratio(side[baseline], figure, better)
                    for engine, figure in side.items()
                    if engine != baseline and baseline in side
                },
            }
        )
    return rows


class _Figure:
    """One engine's figure. Its units are the rounds; with a single round, its requests."""

    def __init__(self, cell: str, metric: str, engine: str, rounds: Rounds) -> None:
        self.metric = metric
        self.rounds = {number: figures.values.get(metric) for number, figures in rounds}
        self.known = [value for value in self.rounds.values() if value is not None]
        self.sources = {figures.prefill_from for _, figures in rounds} if metric == "prefill_tok_s" else set()
        self.is_setting = metric == "peak_vram_mib" and any(figures.reserves_memory for _, figures in rounds)
        self.n = sum(figures.counts.get(metric, 0) for _, figures in rounds)
        self.value: float | None = None
        if self.known:
            positive = min(self.known) > 0
            self.value = geometric_mean(self.known) if positive else sum(self.known) / len(self.known)
        self._only = rounds[0][1] if len(rounds) == 1 else None
        # Each figure has its own seed, so its interval does not depend on other figures.
        self._seed = zlib.crc32(f"{cell}/{metric}/{engine}".encode())
        self._draws: Floats | None = None
        self.brackets = [
            figures.bracket
            for _, figures in rounds
            if metric in CAPACITY and figures.bracket and metric in figures.values
        ]

    @property
    def resolution(self) -> float | None:
        """The width of a capacity's bracket, log(fails / passes), averaged over its rounds; None for other figures."""
        widths = [math.log(fails / passes) for passes, fails in self.brackets]
        return sum(widths) / len(widths) if widths else None

    @property
    def draws(self) -> Floats | None:
        """The bootstrap distribution within a single round; None with several rounds, or where there is none."""
        if self._draws is None and self._only is not None and self.value:
            self._draws = _resample(self._only, self.metric, self.value, np.random.default_rng(self._seed))
        return self._draws

    @property
    def ci(self) -> Interval | None:
        if self.brackets:
            return self._bracket_interval()
        if len(self.known) > 1:
            return geometric_interval(self.known)
        return percentile_interval(self.draws) if self.draws is not None else None

    def _bracket_interval(self) -> Interval:
        """From the levels that pass to the levels that fail: one round's bracket, or the interval of several rounds."""
        passes, fails = zip(*self.brackets, strict=True)
        low, high = geometric_interval(passes), geometric_interval(fails)
        if low is None or high is None:
            return Interval(passes[0], fails[0])
        return Interval(low.low, high.high)

    def to_json(self) -> JsonObject:
        ci = self.ci
        resolution = {"resolution": self.resolution} if self.brackets else {}
        return resolution | {
            "value": self.value,
            "ci": ci.as_list() if ci else None,
            "n": self.n,
            "rounds": {str(number): value for number, value in self.rounds.items()},
        }


def _resample(figures: CellFigures, metric: str, value: float, rng: np.random.Generator) -> Floats | None:
    """Resampled values of a metric of one round; requests are drawn with replacement.

    Rates are resampled as tokens (or requests) per time in flight, and scaled to the measured rate: in a closed loop
    the number in flight is fixed, so the rate follows the requests' durations. An open loop sends by its schedule, so
    request durations do not show how certain its rates are: None.
    """
    samples = figures.samples
    if figures.steady.asked is None and metric in RATES and metric != "prefill_tok_s":
        return None
    if metric in ("output_tok_s", "output_tok_s_whole", "requests_s", "goodput_s", "prefill_tok_s"):
        below = samples["prefill_ms" if metric == "prefill_tok_s" else "busy_ms"]
        above: Any = {
            "requests_s": np.ones(len(below)),
            "goodput_s": samples.get("met"),
            "prefill_tok_s": samples["prefill_tokens"],
        }.get(metric, samples["tokens"])
        if len(below) < 2 or not above.sum() or not below.sum():
            return None
        point = float(above.sum() / below.sum())
        return np.asarray(bootstrap_mean(above, rng, below) / point * value, dtype=float)
    name, _, suffix = metric.rpartition("_")
    values = samples.get(name)
    if values is None or len(values) < 2:
        return None
    return bootstrap_mean(values, rng) if suffix == "mean" else bootstrap_quantile(values, _QUANTILES[suffix], rng)


def _speed_ratio(baseline: _Figure, candidate: _Figure, better: str) -> JsonObject:
    """{value, ci, method, rounds, text} of candidate against baseline; above 1 is faster. `text`: why it is missing."""
    above, below = (candidate, baseline) if better == "higher" else (baseline, candidate)
    if why := _why_no_ratio(baseline, candidate):
        return {"value": None, "ci": None, "text": why, "method": None, "rounds": [0, 0]}
    assert above.value
    assert below.value
    value, ci, method = above.value / below.value, None, "no interval"
    # An engine that sends all tokens at once can have a TPOT of 0: then the ratio is unbounded and has no interval.
    if min(len(above.known), len(below.known)) > 1:
        if min(*above.known, *below.known) > 0:
            rounds = welch(above.known, below.known, blur=grid_blur(above.resolution, below.resolution))
            value, ci, method = rounds.ratio, rounds.ratio_interval(), "welch"
    elif above.brackets and below.brackets:
        (low, high), (least, most) = above.brackets[0], below.brackets[0]
        ci, method = Interval(low / most, high / least), WITHIN_RUN
    elif above.draws is not None and below.draws is not None and below.draws.all():
        ci, method = percentile_interval(above.draws / below.draws), WITHIN_RUN
    return {
        "value": value,
        "ci": ci.as_list() if ci else None,
        "text": "",
        "method": method,
        "rounds": [len(baseline.known), len(candidate.known)],
    }


def _why_no_ratio(baseline: _Figure, candidate: _Figure) -> str | None:
    if baseline.value is None or candidate.value is None:
        return "no figure on both sides"
    if not baseline.value or not candidate.value:
        return "a figure of 0 has no ratio"
    if baseline.is_setting or candidate.is_setting:
        return "a setting: the engine reserves its memory as a pool when it starts"
    if baseline.sources != candidate.sources:
        sources = (" or ".join(sorted(map(str, side.sources))) for side in (baseline, candidate))
        return "measured in two ways: from {} in the baseline, from {} here".format(*sources)
    return None
