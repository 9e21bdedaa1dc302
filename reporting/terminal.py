"""A comparison on a terminal: a table where there is one, plain lines where there is not."""

from __future__ import annotations

import sys
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from records import JsonObject
from reporting.escape import terminal as safe
from reporting.format import (
    DAGGER_NOTE,
    count,
    metric_name,
    points,
    quantity,
    ratio_with_interval,
    share_with_interval,
)
from reporting.view import View, cell_of

_STYLES = {"faster": "green", "better": "green", "slower": "red", "worse": "red", "inconclusive": "yellow"}
_AUDIT_STYLES = {"fail": "bold red", "warn": "yellow", "unknown": "yellow"}
_METRICS = ("output_tok_s", "ttft_ms_p50", "tpot_ms_p50")
_EVIDENCE_ROWS = 12


def summary(comparison: JsonObject, *, width: int = 100, plain: bool | None = None) -> str:
    """The final table: throughput, TTFT and TPOT of every cell, answers, and the checks that did not pass.

    Args:
        comparison: a comparison JSON.
        width: columns to use.
        plain: lines without colour and frames, one fact a line; None asks whether stdout is a terminal.
    """
    if plain is None:
        plain = not sys.stdout.isatty()
    return lines(comparison) if plain else _rich(View(comparison), width)


def lines(comparison: JsonObject) -> str:
    """Plain lines, one fact each, for logs and for `grep`."""
    view = View(comparison)
    told = [safe(view.headline, 1000)]
    for row in _speed_rows(view):
        for candidate in view.candidates:
            told.append(
                f"speed  {safe(cell_of(row))}  {metric_name(row['metric'])}  "
                f"{safe(view.baseline)} {quantity(_value(row, view.baseline), row.get('unit'))}  "
                f"{safe(candidate)} {quantity(_value(row, candidate), row.get('unit'))}  "
                f"ratio {ratio_with_interval((row.get('speed_ratio') or {}).get(candidate))}"
            )
    if view.blind:
        told.append(DAGGER_NOTE)
    for row in view.rows("quality"):
        parts = [f"{safe(e)} {_accuracy(row['engines'].get(e))}" for e in view.engines]
        parts += [_difference(row, candidate) for candidate in view.candidates]
        told.append(f"answers  {safe(row['workload'])}  n {row['n']}  " + "  ".join(parts))
    shown = _open_checks(view)
    for row in shown[:_EVIDENCE_ROWS]:
        place = " ".join(safe(row[key]) for key in ("engine", "cell") if row.get(key))
        told.append(f"audit  {row['status']}  {safe(row['check'])}  {place}  {safe(row['evidence'])}")
    if len(shown) > _EVIDENCE_ROWS:
        told.append(f"audit  {len(shown) - _EVIDENCE_ROWS} more checks did not pass; see the report")
    if view.failed_requests:
        told.append(f"errors  {count(len(view.failed_requests), 'request')} failed")
    return "\n".join(told)


def _rich(view: View, width: int) -> str:
    out = StringIO()
    console = Console(file=out, width=max(width, 40), force_terminal=True, highlight=False)
    console.print(Text(safe(view.headline, 1000), style="bold red" if view.void else "bold"))
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, right in (("cell", False), ("metric", False), (view.baseline, True)):
        table.add_column(Text(safe(name, 30)), justify="right" if right else "left", overflow="fold")
    for candidate in view.candidates:
        table.add_column(Text(safe(candidate, 30)), justify="right", overflow="fold")
        table.add_column("speed ratio", overflow="fold")
    previous = ""
    for row in _speed_rows(view):
        cell = cell_of(row)
        cells = [Text(safe(cell) if cell != previous else ""), Text(metric_name(row["metric"])),
                 Text(quantity(_value(row, view.baseline), row.get("unit")))]  # fmt: skip
        for candidate in view.candidates:
            told = (row.get("speed_ratio") or {}).get(candidate)
            cells.append(Text(quantity(_value(row, candidate), row.get("unit"))))
            cells.append(Text(ratio_with_interval(told), style=_STYLES.get((told or {}).get("verdict") or "", "")))
        table.add_row(*cells)
        previous = cell
    console.print(table)
    if view.blind:
        console.print(Text(DAGGER_NOTE, style="dim"))
    for row in view.rows("quality"):
        console.print()
        parts = [f"{safe(e, 30)} {_accuracy(row['engines'].get(e))}" for e in view.engines]
        console.print(Text(f"{safe(row['workload'])}  " + "   ".join(parts)))
        for candidate in view.candidates:
            verdict = ((row.get("paired") or {}).get(candidate) or {}).get("verdict") or ""
            console.print(Text("  " + _difference(row, candidate), style=_STYLES.get(verdict, "")))
    _rich_audit(view, console)
    return out.getvalue().rstrip("\n")


def _rich_audit(view: View, console: Console) -> None:
    console.print()
    counts = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in view.audit_counts.items())
    console.print(Text(f"audit: {counts or 'no checks'}", style="dim"))
    shown = _open_checks(view)
    for row in shown[:_EVIDENCE_ROWS]:
        place = " ".join(safe(row[key], 40) for key in ("engine", "cell") if row.get(key))
        console.print(
            Text(f"{row['status']:<8}", style=_AUDIT_STYLES.get(row["status"], ""))
            + Text(f"{safe(row['check'])}  ")
            + Text(f"{place}  ", style="dim")
            + Text(safe(row["evidence"]))
        )
    if len(shown) > _EVIDENCE_ROWS:
        console.print(Text(f"{len(shown) - _EVIDENCE_ROWS} more did not pass; see the report", style="dim"))
    if view.failed_requests:
        console.print(Text(f"{count(len(view.failed_requests), 'request')} failed", style="red"))


def _speed_rows(view: View) -> list[JsonObject]:
    return [row for row in view.lead_rows if row["metric"] in _METRICS]


def _open_checks(view: View) -> list[JsonObject]:
    return [row for row in view.audit if row["status"] not in ("pass", "not_applicable")]


def _value(row: JsonObject, engine: str) -> float | None:
    value = (row["engines"].get(engine) or {}).get("value")
    return None if value is None else float(value)


def _accuracy(engine: JsonObject | None) -> str:
    if not engine:
        return "–"
    return f"{engine.get('correct')}/{engine.get('n')} {share_with_interval(engine.get('accuracy'), engine.get('ci'))}"


def _difference(row: JsonObject, candidate: str) -> str:
    paired = (row.get("paired") or {}).get(candidate)
    if not paired:
        return "not compared"
    return f"{points(paired.get('difference'), paired.get('ci'))}, {safe(paired.get('text') or paired.get('verdict'))}"
