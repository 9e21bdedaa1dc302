"""Makes the speed table of the HTML report: figures, ratios, and each ratio's interval as a small plot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from records import JsonObject
from reporting.format import (
    DAGGER,
    blind,
    interval,
    metric_name,
    ratio,
    ratio_with_interval,
    shown_interval,
    tone,
    word,
)
from reporting.view import View, cell_of


@dataclass(frozen=True)
class SpeedTable:
    """Rows of (cell shown, metric, figures per engine, ratios per candidate), with an interval plot for each ratio."""

    rows: list[dict[str, Any]]
    factor: float
    """The plots span from 1 / factor to factor."""

    @classmethod
    def make(cls, view: View, rows: list[JsonObject]) -> SpeedTable:
        ratios = [(row.get("speed_ratio") or {}).get(c) or {} for row in rows for c in view.candidates]
        values = [v for t in ratios for v in (t.get("value"), *(shown_interval(t) or ())) if v]
        farthest = max((abs(math.log2(v)) for v in values), default=0.2)
        factor = next((f for f in (1.1, 1.25, 1.5, 2.0, 4.0) if math.log2(f) >= farthest), 8.0)
        previous, out = "", []
        for row in rows:
            cell = cell_of(row)
            engines = row["engines"]
            out.append(
                {
                    "first": cell != previous,
                    "scenario": row["scenario"],
                    "workload": row["workload"],
                    "metric": metric_name(row["metric"]),
                    "unit": word(row.get("unit")),
                    "baseline": (engines.get(view.baseline) or {}).get("value"),
                    "candidates": [
                        _ratio_cell((engines.get(c) or {}).get("value"), (row.get("speed_ratio") or {}).get(c), factor)
                        for c in view.candidates
                    ],
                }
            )
            previous = cell
        return cls(out, factor)

    @property
    def ends(self) -> tuple[str, str]:
        return f"{1 / self.factor:.2g}×", f"{self.factor:.2g}×"


def _ratio_cell(value: float | None, speed_ratio: JsonObject | None, factor: float) -> JsonObject:
    speed_ratio = speed_ratio or {}
    return {
        "value": value,
        "ratio": ratio(speed_ratio.get("value"), shown_interval(speed_ratio)),
        "interval": interval(shown_interval(speed_ratio)) + (DAGGER if blind(speed_ratio) else ""),
        "word": word(speed_ratio.get("verdict")),
        "tone": tone(speed_ratio),
        "plot": _whisker(speed_ratio, factor),
    }


def _whisker(speed_ratio: JsonObject, factor: float) -> Markup:
    """The interval on a logarithmic line with 1 in the middle; it is cut at the line's ends."""
    value, ci = speed_ratio.get("value"), shown_interval(speed_ratio)
    if not value:
        return Markup()
    width, middle, y = 150, 75, 9

    def at(ratio_value: float) -> float:
        share_of = math.log(max(ratio_value, 1e-9)) / math.log(factor)
        return round(middle + max(-1.0, min(1.0, share_of)) * (middle - 6), 1)

    css = tone(speed_ratio)
    bar = f'<path class="whisker {css}" d="M{at(ci[0])} {y}H{at(ci[1])}"/>' if ci else ""
    x = at(value)
    return Markup(  # noqa: S704 (numbers and our own words)
        f'<svg class="forest" viewBox="0 0 {width} 18" role="img" aria-label="{ratio_with_interval(speed_ratio)}">'
        f'<path class="rule" d="M{middle} 0V18"/><path class="reach {css}" d="M{middle} {y}H{x}"/>{bar}'
        f'<circle class="point {css}" cx="{x}" cy="{y}" r="3.5"/></svg>'
    )
