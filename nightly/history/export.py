"""Exports the history as CSV for Apache Otava and spreadsheets: one row per run, one column per figure."""

from __future__ import annotations

import csv
import re
from typing import TextIO

from nightly.history.series import breaks_between
from nightly.history.store import WHOLE_RUN, History, RunInfo
from reporting.escape import one_line
from scoring.metrics import higher_is_better

ATTRIBUTES = ("run_id", "profile", "builds", "series", "broken_by")


def export_csv(history: History, out: TextIO, *, profile: str, metrics: tuple[str, ...] = ()) -> list[str]:
    """Write the complete runs of a profile, oldest first.

    Columns: `time` (ISO 8601 with offset), the attributes (run_id, profile, builds, series, broken_by), then one column
    for each `engine.cell.metric`. `series` increases at each break of the host, so that a reader that does not know
    breaks can separate the stretches. An empty field is a figure that was not measured.

    Returns:
        The names of the metric columns, in the form of Otava's `metrics:`.
    """
    runs = history.runs(profile=profile, where="status = 'complete' AND kind != 'confirmation'")
    table: list[tuple[RunInfo, dict[str, float]]] = []
    for run in runs:
        whole = [f for f in history.figures(run.run_id) if f.round == WHOLE_RUN]
        table.append(
            (run, {_column(f.engine, f.cell, f.metric): f.value for f in whole if not metrics or f.metric in metrics})
        )
    names = sorted({name for _, figures in table for name in figures})
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["time", *ATTRIBUTES, *names])
    number = 1
    for place, (run, figures) in enumerate(table):
        engines = history.engines(run.run_id)
        broken: list[str] = []
        if place:
            for engine in engines:
                broken += [
                    text
                    for text in breaks_between(history, table[place - 1][0], run, engine, None)
                    if text not in broken
                ]
        number += bool(broken)
        builds = " ".join(f"{name}={info.build or 'unknown'}" for name, info in engines.items())
        attributes = [_inert(text) for text in (run.run_id, run.profile, builds, str(number), "; ".join(broken))]
        time = _inert(run.created_utc.replace("Z", "+00:00"))
        writer.writerow([time, *attributes, *(repr(figures[name]) if name in figures else "" for name in names)])
    return names


def otava_config(path: str, profile: str, names: list[str]) -> str:
    """The `tests:` section of an otava.yaml that reads the exported file."""
    lines = ["tests:", f"  {_column(profile)}:", "    type: csv", f"    file: {path}", "    time_column: time"]
    lines += [f"    attributes: [{', '.join(ATTRIBUTES)}]", "    metrics:"]
    for name in names:
        direction = 1 if higher_is_better(name.rpartition(".")[2]) else -1
        lines += [f"      {name}:", f"        column: {name}", f"        direction: {direction}"]
    return "\n".join([*lines, "    csv_options:", "      delimiter: ','", "      quote_char: '\"'", ""])


def _column(*parts: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", ".".join(parts))


def _inert(text: str) -> str:
    """Escape text: what a spreadsheet would run as a formula gets an apostrophe; control characters become visible."""
    text = one_line(text, None)
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@", "␉")) else text
