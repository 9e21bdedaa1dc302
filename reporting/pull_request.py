"""Renders a comparison as a comment on a pull request: the finding, a table of the deciding figures, the answers."""

from __future__ import annotations

from records import JsonObject
from reporting.escape import markdown as md
from reporting.finding import finding
from reporting.format import DAGGER_NOTE, HOW_TO_READ, metric_name, points, quantity, ratio_with_interval, share
from reporting.view import View, cell_of


def pull_request(comparison: JsonObject) -> str:
    """Markdown of about 20 lines; every name in it is escaped."""
    view = View(comparison)
    header = ["cell", "metric", f"{md(view.baseline)} (baseline)"]
    for candidate in view.candidates:
        header += [md(candidate), "speed ratio [95%]"]
    found = finding(view)
    lines = [f"**{md(found.first_line, 1000)}**", ""]
    lines += [f"{label}: {md(text, 500)}  " for label, text in found.paragraphs]
    lines += ["", _row(header), _row(["---", "---", *["---:"] * (len(header) - 2)])]
    lines += [_row(_speed(view, row)) for row in view.deciding_rows]
    lines += [_row(_answers(view, row)) for row in view.rows("quality")]
    builds = [f"{md(name)}: {md(view.card(name).get('build') or 'unknown build')}" for name in view.engines]
    notes = [HOW_TO_READ, *([DAGGER_NOTE] if view.blind else [])] if view.deciding_rows else []
    return "\n".join([*lines, "", *notes, f"{'; '.join(builds)}. Run {md(view.run_id)}, enginebench."]) + "\n"


def _speed(view: View, row: JsonObject) -> list[str]:
    def value(engine: str) -> str:
        return quantity((row["engines"].get(engine) or {}).get("value"), row.get("unit"))

    cells = [md(cell_of(row)), metric_name(row["metric"]), value(view.baseline)]
    for candidate in view.candidates:
        cells += [value(candidate), ratio_with_interval((row.get("speed_ratio") or {}).get(candidate))]
    return cells


def _answers(view: View, row: JsonObject) -> list[str]:
    def value(engine: str) -> str:
        return share((row["engines"].get(engine) or {}).get("accuracy"))

    cells = [md(row["workload"]), f"right answers, n = {row['n']}", value(view.baseline)]
    for candidate in view.candidates:
        paired = (row.get("paired") or {}).get(candidate) or {}
        difference = points(paired.get("difference"), paired.get("ci"))
        cells += [value(candidate), f"{difference} {paired.get('verdict') or ''}".strip()]
    return cells


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
