"""Renders a comparison for a terminal (a table that fits its width), or as plain lines for a pipe or a log."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from records import JsonObject
from reporting.capacity import capacity_facts
from reporting.escape import terminal as safe
from reporting.finding import finding
from reporting.format import (
    DAGGER_NOTE,
    HOW_TO_READ,
    UNKNOWN,
    count,
    metric_name,
    points,
    quantity,
    ratio_with_interval,
    share_with_interval,
    shown_interval,
)
from reporting.machine import MACHINE_COLUMNS, machine_facts
from reporting.view import View, cell_of

_STYLES = {"faster": "green", "better": "green", "slower": "red", "worse": "red", "inconclusive": "yellow"}
_STATES = {"Void": "bold red", "Fair": "bold"}
_AUDIT_STYLES = {"fail": "bold red", "warn": "yellow", "unknown": "yellow"}
_EVIDENCE_ROWS = 12
_EVIDENCE_CHARACTERS = 320


def summary(comparison: JsonObject, *, width: int | None = None, plain: bool | None = None) -> str:
    """The end of a run: the finding, then throughput, TTFT and TPOT of every cell, answers, and open checks.

    Args:
        comparison: a comparison JSON.
        width: columns to use; None asks the terminal.
        plain: one fact per line, without colour; None: plain unless stdout is a terminal.
    """
    if sys.stdout.isatty() if plain is None else not plain:
        size = shutil.get_terminal_size((100, 40))
        return _colored(View(comparison), max(width or size.columns, 40), size.lines)
    return lines(comparison)


def lines(comparison: JsonObject) -> str:
    """Plain lines, one fact each, for logs and for `grep`."""
    view = View(comparison)
    found = finding(view)
    text = [safe(line, None) for line in (*view.night_lines, found.first_line)]
    text += [f"{label.lower()}  {safe(paragraph, None)}" for label, paragraph in found.paragraphs]
    for row in view.deciding_rows:
        for candidate in view.candidates:
            text.append(
                f"speed  {safe(cell_of(row))}  {metric_name(row['metric'])}  "
                f"{safe(view.baseline)} {_figure(row, view.baseline)}  {safe(candidate)} {_figure(row, candidate)}  "
                f"speed ratio {ratio_with_interval((row.get('speed_ratio') or {}).get(candidate))}"
            )
    text += [
        f"search  {safe(f.cell)}  {safe(f.engine)} round {f.round}: {safe(f.result)}" for f in capacity_facts(view)
    ]
    if view.blind:
        text.append(DAGGER_NOTE)
    for row in view.rows("quality"):
        parts = [f"{safe(e)} {_accuracy(row['engines'].get(e))}" for e in view.engines]
        parts += [_difference(row, candidate) for candidate in view.candidates]
        text.append(f"answers  {safe(row['workload'])}  {count(row['n'], 'problem')}  " + "  ".join(parts))
    for facts in machine_facts(view):
        values = "  ".join(f"{name} {safe(value)}" for name, value in zip(MACHINE_COLUMNS, facts.values, strict=True))
        text.append(f"machine  {safe(facts.cell)}  {safe(facts.engine)}  {values}")
    text += [f"audit  {status}  {where}{evidence}" for status, where, evidence in _open_checks(view)]
    if view.failed_requests:
        text.append(f"errors  {count(len(view.failed_requests), 'request')} failed")
    return "\n".join(text)


def _colored(view: View, width: int, height: int) -> str:
    out = StringIO()
    console = Console(file=out, width=width, force_terminal=True, highlight=False)
    found = finding(view)
    first_line = Text(safe(found.first_line, None), style=_STATES.get(found.state, "bold yellow"))
    for line in view.night_lines:
        console.print(Text(safe(line, None), style="bold red" if view.night.get("exit_code") else ""))
    console.print(first_line)
    console.print(_labelled([(Text(label, "dim"), Text(safe(text, None))) for label, text in found.paragraphs]))
    if view.deciding_rows:
        console.print()
        _print_speed(view, console)
        console.print(Text(f"{HOW_TO_READ} {DAGGER_NOTE if view.blind else ''}".strip(), style="dim"))
    if searches := capacity_facts(view):
        console.print()
        console.print(Text("Capacity", style="bold"))
        facts = [(Text(f"  {safe(f.cell)} {safe(f.engine)} r{f.round}"), Text(safe(f.result))) for f in searches]
        console.print(_labelled(facts))
    for row in view.rows("quality"):
        console.print()
        console.print(Text(f"{safe(row['workload'])}, {count(row['n'], 'problem')}", style="bold"))
        facts = [(Text(f"  {safe(e, 30)}"), Text(_accuracy(row["engines"].get(e)))) for e in view.engines]
        for candidate in view.candidates:
            verdict = ((row.get("paired") or {}).get(candidate) or {}).get("verdict") or ""
            label = "  difference" if len(view.candidates) == 1 else f"  {safe(candidate, 30)}, difference"
            facts.append((Text(label), Text(_difference(row, candidate), style=_STYLES.get(verdict, ""))))
        console.print(_labelled(facts))
    _print_machine(view, console)
    counts = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in view.audit_counts.items())
    console.print()
    console.print(Text(f"audit: {counts or 'no checks'}", style="dim"))
    checks = [
        (Text(status, _AUDIT_STYLES.get(status, "")), Text(where, "dim") + Text(evidence))
        for status, where, evidence in _open_checks(view)
    ]
    console.print(_labelled(checks))
    if view.failed_requests:
        console.print(Text(f"{count(len(view.failed_requests), 'request')} failed", style="red"))
    if out.getvalue().count("\n") > height:
        # The first line has scrolled off the screen, so repeat it.
        console.print()
        console.print(first_line)
    return out.getvalue().rstrip("\n")


def _print_machine(view: View, console: Console) -> None:
    """Print the machine's figures per engine, with as many columns as fit; the first four are always printed."""
    if not (facts := machine_facts(view)):
        return
    console.print()
    for columns in range(len(MACHINE_COLUMNS), 3, -1):
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("machine under", no_wrap=True)
        for name in MACHINE_COLUMNS[:columns]:
            table.add_column(name, justify="right", no_wrap=True)
        for row in facts:
            table.add_row(Text(f"{safe(row.cell, 40)} {safe(row.engine, 30)}"), *map(Text, row.values[:columns]))
        if console.measure(table, options=console.options.update(width=10_000)).maximum <= console.width:
            console.print(table)
            return
    for row in facts:
        console.print(Text(f"machine under {safe(row.cell, 40)} {safe(row.engine, 30)}", style="dim"))
        console.print(Text(f"  slowed down {row.values[MACHINE_COLUMNS.index('slowed down')]}"))


def _labelled(facts: list[tuple[Text, Text]]) -> Table:
    """A grid of labels and facts; long facts wrap within their own column."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in facts:
        grid.add_row(label, text)
    return grid


def _print_speed(view: View, console: Console) -> None:
    """The widest layout that fits: a table with a column of cells; a heading for each cell; a line for each engine."""
    cells = [cell_of(row) for row in view.deciding_rows]
    for with_cells in (True, False):
        table = _speed_table(view, cells if with_cells else None)
        if console.measure(table, options=console.options.update(width=10_000)).maximum > console.width:
            continue
        if with_cells:
            console.print(table)
            return
        with console.capture() as capture:
            console.print(table)
        header, *rows = capture.get().splitlines()
        console.out(header)
        for i, row in enumerate(rows):
            if cells[i] not in cells[:i]:
                console.print(Text(safe(cells[i]), style="bold"))
            console.out(row)
        return
    for line in _speed_lines(view, console.width):
        console.print(line)


def _speed_table(view: View, cells: list[str] | None) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    if cells:
        table.add_column("cell", no_wrap=True)
    table.add_column("metric", no_wrap=True)
    table.add_column(Text(safe(view.baseline, 30)), justify="right", no_wrap=True)
    for candidate in view.candidates:
        table.add_column(Text(safe(candidate, 30)), justify="right", no_wrap=True)
        table.add_column("speed ratio", no_wrap=True)
    for i, row in enumerate(view.deciding_rows):
        first = [Text(safe(cells[i]) if cells[i] not in cells[:i] else "")] if cells else []
        figures = [Text(metric_name(row["metric"])), Text(_figure(row, view.baseline))]
        for candidate in view.candidates:
            figures += [Text(_figure(row, candidate)), _ratio(view, row, candidate)]
        table.add_row(*first, *figures)
    return table


def _speed_lines(view: View, width: int) -> Iterator[Text]:
    previous = None
    for row in view.deciding_rows:
        if (cell := cell_of(row)) != previous:
            yield Text(safe(cell), style="bold")
        previous = cell
        yield Text(f"  {metric_name(row['metric'])}")
        yield Text(f"    {safe(view.baseline, 30)} {_figure(row, view.baseline)}")
        for candidate in view.candidates:
            figure, ratio = Text(f"    {safe(candidate, 30)} {_figure(row, candidate)}  "), _ratio(view, row, candidate)
            if figure.cell_len + ratio.cell_len <= width:
                yield figure + ratio
            else:
                yield figure
                yield Text("      ") + ratio


def _ratio(view: View, row: JsonObject, candidate: str) -> Text:
    speed_ratio = (row.get("speed_ratio") or {}).get(candidate) or {}
    # The verdicts of a void comparison prove nothing, so they get no colour.
    style = "dim" if view.void else _STYLES.get(speed_ratio.get("verdict") or "", "")
    return Text(ratio_with_interval(speed_ratio), style=style)


def _open_checks(view: View) -> list[tuple[str, str, str]]:
    """(status, check and place, evidence) of the checks that did not pass; the last row counts those left out."""
    open_rows = [row for row in view.audit if row["status"] not in ("pass", "not_applicable")]
    shown = []
    for row in open_rows[:_EVIDENCE_ROWS]:
        place = ", ".join(safe(row[key], 40) for key in ("engine", "cell") if row.get(key))
        shown.append(
            (
                str(row["status"]),
                f"{safe(row['check'])}{f' ({place})' if place else ''}: ",
                safe(row["evidence"], _EVIDENCE_CHARACTERS),
            )
        )
    if more := len(open_rows) - len(shown):
        shown.append(("more", f"{count(more, 'more check')} did not pass; ", "see the report"))
    return shown


def _figure(row: JsonObject, engine: str) -> str:
    value = (row["engines"].get(engine) or {}).get("value")
    return quantity(None if value is None else float(value), row.get("unit"))


def _accuracy(engine: JsonObject | None) -> str:
    if not engine:
        return UNKNOWN
    share = share_with_interval(engine.get("accuracy"), engine.get("ci"))
    return f"{engine.get('correct')}/{engine.get('n')} right, {share}"


def _difference(row: JsonObject, candidate: str) -> str:
    paired = (row.get("paired") or {}).get(candidate)
    if not paired:
        return "not compared"
    difference = points(paired.get("difference"), shown_interval(paired))
    return f"{difference}, {safe(paired.get('text') or paired.get('verdict'))}"
