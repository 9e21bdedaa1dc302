"""A comparison as one self-contained HTML page: no network, no library, every foreign string escaped.

The page is a template with autoescape, one style sheet and one small script, both allowed by their hash in the page's
own content security policy. It is whole without the script, which only adds copying and the choice of theme.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChainableUndefined, Environment, FileSystemLoader
from markupsafe import Markup

from records import JsonObject
from reporting._charts import Charts
from reporting._escape import one_line, visible
from reporting._format import (
    DAGGER_NOTE,
    UNKNOWN,
    blind,
    count,
    figure,
    interval,
    metric_name,
    points,
    quantity,
    ratio,
    ratio_with_interval,
    share,
    word,
)
from reporting._problems import flip_grids, problems
from reporting._view import View, cell_of, error_words, failures
from reporting.markdown import engine_facts, run_facts

TEMPLATES = Path(__file__).with_name("templates")
FAILED_LISTED = 500
TONES = {
    "faster": "good", "better": "good", "slower": "bad", "worse": "bad", "equivalent": "same", "inconclusive": "open",
}  # fmt: skip
STATUS_TONES = {"fail": "bad", "warn": "open", "unknown": "open", "pass": "good", "not_applicable": "same"}


def html(comparison: JsonObject) -> str:
    """The page. It needs nothing but the comparison."""
    view = View(comparison)
    style, script = _asset("report.css"), _asset("report.js")
    return _environment().get_template("report.html.j2").render(
        view=view,
        style=Markup(style),  # noqa: S704 (our own file)
        script=Markup(script),  # noqa: S704 (our own file)
        policy=f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'",
        cards=_cards(view),
        reasons=[
            (check, [row for row in view.audit if row["check"] == check and row["status"] == "fail"])
            for check in view.failed_checks[:12]
        ],
        speed=SpeedTable.make(view, view.lead_rows),
        other_speed=SpeedTable.make(view, view.other_rows),
        groups=Charts(view).groups(),
        problems=problems(view),
        grids=flip_grids(view),
        engine_facts=engine_facts(view),
        run_facts=run_facts(view),
        commands=_commands(view),
        errors=failures(view.failed_requests),
        failed=view.failed_requests[:FAILED_LISTED],
        passed=Counter(row["check"] for row in view.audit if row["status"] == "pass"),
        dagger=DAGGER_NOTE if view.blind else "",
    )  # fmt: skip


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        line=one_line, text=visible, num=_number, share=lambda value: share(_known(value)),
        tone=lambda verdict: TONES.get(verdict or "", "none"),
        status_tone=lambda status: STATUS_TONES.get(status, "open"),
    )  # fmt: skip
    environment.globals.update(
        UNKNOWN=UNKNOWN,
        count=count,
        points=points,
        quantity=quantity,
        interval=interval,
        cell_of=cell_of,
        error_words=error_words,
    )
    return environment


def _known(value: Any) -> float | None:
    """A number; None for null and for a part that an older comparison lacks."""
    return float(value) if isinstance(value, int | float) else None


def _number(value: Any, digits: int = 4) -> str:
    return figure(_known(value), digits)


@cache
def _asset(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@dataclass(frozen=True)
class Card:
    """One figure that is seen first: `value` in large, what it is above it, its proof below."""

    label: str
    value: str
    word: str
    tone: str
    proof: str
    interval: str


def _cards(view: View) -> list[tuple[str, list[Card]]]:
    """Per candidate: the throughput ratio of every cell and the answers of every workload."""
    found = []
    graded = {cell_of(row) for row in view.rows("quality") if row.get("scenario")}
    for candidate in view.candidates:
        cards = []
        for row in view.rows("performance"):
            told = (row.get("speed_ratio") or {}).get(candidate)
            if row["metric"] != "output_tok_s" or not told or told.get("value") is None or cell_of(row) in graded:
                continue
            proof = f"{quantity((row['engines'].get(candidate) or {}).get('value'), 'tok/s')} against "
            proof += quantity((row["engines"].get(view.baseline) or {}).get("value"), "tok/s")
            shown = (word(told.get("verdict")) or "no verdict") + ("†" if blind(told) else "")
            ci = told.get("ci")
            cards.append(
                Card(
                    one_line(cell_of(row)),
                    ratio(told["value"], ci),
                    shown,
                    _tone(told),
                    proof,
                    f"95% {interval(ci)}" if ci else "",
                )
            )
        for row in view.rows("quality"):
            paired = (row.get("paired") or {}).get(candidate)
            if not paired:
                continue
            ours, theirs = row["engines"].get(candidate) or {}, row["engines"].get(view.baseline) or {}
            proof = f"{share(ours.get('accuracy'))} against {share(theirs.get('accuracy'))}, n\u00a0=\u00a0{row['n']:,}"
            _, _, ends = points(paired.get("difference"), paired.get("ci")).partition(" points ")
            cards.append(
                Card(
                    f"{one_line(row['workload'])}, right answers",
                    points(paired.get("difference")).replace(" points", " pt"),
                    word(paired.get("verdict")) or "no verdict", _tone(paired), proof, f"95% {ends}" if ends else "",
                )
            )  # fmt: skip
        found.append((candidate, cards))
    return found


def _tone(told: JsonObject) -> str:
    return TONES.get(str(told.get("verdict")), "none")


@dataclass(frozen=True)
class SpeedTable:
    """Rows of (cell shown, metric, figures per engine, ratios per candidate), with an interval plot for each ratio."""

    rows: list[dict[str, Any]]
    factor: float
    """The plots reach from 1 / factor to factor."""

    @classmethod
    def make(cls, view: View, rows: list[JsonObject]) -> SpeedTable:
        told = [(row.get("speed_ratio") or {}).get(c) or {} for row in rows for c in view.candidates]
        values = [v for t in told for v in (t.get("value"), *(t.get("ci") or ())) if v]
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


def _ratio_cell(value: float | None, told: JsonObject | None, factor: float) -> JsonObject:
    told = told or {}
    return {
        "value": value,
        "ratio": ratio(told.get("value"), told.get("ci")),
        "interval": interval(told.get("ci")),
        "word": word(told.get("verdict")) + ("†" if blind(told) else ""),
        "tone": _tone(told),
        "plot": _whisker(told, factor),
    }


def _whisker(told: JsonObject, factor: float) -> Markup:
    """The interval on a logarithmic line on which 1 is in the middle; beyond the ends it is cut."""
    value, ci = told.get("value"), told.get("ci")
    if not value:
        return Markup()
    width, middle, y = 150, 75, 9

    def at(ratio_value: float) -> float:
        share_of = math.log(max(ratio_value, 1e-9)) / math.log(factor)
        return round(middle + max(-1.0, min(1.0, share_of)) * (middle - 6), 1)

    tone = _tone(told)
    bar = f'<path class="whisker {tone}" d="M{at(ci[0])} {y}H{at(ci[1])}"/>' if ci else ""
    x = at(value)
    return Markup(  # noqa: S704 (numbers and our own words)
        f'<svg class="forest" viewBox="0 0 {width} 18" role="img" aria-label="{ratio_with_interval(told)}">'
        f'<path class="rule" d="M{middle} 0V18"/><path class="reach {tone}" d="M{middle} {y}H{x}"/>{bar}'
        f'<circle class="point {tone}" cx="{x}" cy="{y}" r="3.5"/></svg>'
    )


def _commands(view: View) -> list[str]:
    commands = view.provenance.get("commands") or [f"run_bench.py compare {view.run_id}"]
    return [one_line(command, 2000) for command in commands]
