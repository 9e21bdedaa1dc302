"""A comparison as Markdown that fits into a pull-request comment: always under 60 KB, and inert."""

from __future__ import annotations

from records import JsonObject
from reporting.escape import markdown as md
from reporting.escape import markdown_code
from reporting.facts import engine_facts, run_facts
from reporting.markdown import checks as checks
from reporting.markdown import figures as figures
from reporting.markdown.table import table
from reporting.view import View

LIMIT_BYTES = 60_000

_ROWS = (300, 120, 50, 20, 8, 3)
"""Rows a section may have, tried in turn until the whole fits."""


def markdown(comparison: JsonObject) -> str:
    """The report. What did not fit is counted, and stands in the HTML report and in the JSON."""
    view = View(comparison)
    text = ""
    for rows in _ROWS:
        text = _render(view, rows)
        if len(text.encode()) < LIMIT_BYTES:
            return text
    cut = text.encode()[: LIMIT_BYTES - 200].decode(errors="ignore").rpartition("\n")[0]
    return cut + "\n\nCut here: the rest is in the HTML report and in the JSON.\n"


def _render(view: View, rows: int) -> str:
    sections = [
        _head(view),
        figures.speed(view, rows),
        figures.steps(view, rows),
        figures.answers(view, rows),
        figures.time(view, rows),
        checks.audit(view, rows),
        checks.failed(view, rows),
        _what_ran(view),
        _reproduce(view),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(view: View) -> str:
    lines = [f"# {md(view.headline, 1000)}"]
    if view.void:
        lines += ["", *(f"- {md(view.sentence(candidate), 1000)}" for candidate in view.candidates)]
    audited = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in view.audit_counts.items())
    lines += ["", f"Run {md(view.run_id)}, judged {md(view.created)}. Audit: {audited or 'no checks'}."]
    if view.caveats:
        lines += ["", *(f"- {md(caveat, 500)}" for caveat in view.caveats[:10])]
    return "\n".join(lines)


def _what_ran(view: View) -> str:
    header = ["", *(md(engine) for engine in view.engines)]
    body = [[label, *(md(value, 200) for value in values)] for label, values in engine_facts(view)]
    lines = ["## What ran", "", table(header, body, 30)]
    facts = run_facts(view)
    if facts:
        lines += ["", *(f"- {label}: {md(value, 400)}" for label, value in facts)]
    return "\n".join(lines)


def _reproduce(view: View) -> str:
    commands = view.provenance.get("commands") or [f"enginebench compare {view.run_id}"]
    lines = [markdown_code(command) for command in commands]
    return "\n".join(["## Reproduce", "", "```", *lines, "```"])
