"""What a reader must know before believing a Markdown report: the audit, what failed, what flipped."""

from __future__ import annotations

from collections import Counter

from records import JsonObject
from reporting.escape import markdown as md
from reporting.failures import failures
from reporting.format import UNKNOWN, count
from reporting.markdown.table import table
from reporting.view import View


def audit(view: View, rows: int) -> str:
    """The checks that did not pass, and the names of the others."""
    if not view.audit:
        return "## Audit\n\nNo check was made, so nothing says that this comparison was fair."
    open_rows = [row for row in view.audit if row["status"] not in ("pass", "not_applicable")]
    passed = Counter(row["check"] for row in view.audit if row["status"] == "pass")
    lines = ["## Audit: was it fair?", ""]
    if open_rows:
        body = [
            [_status(row["status"]), *(md(row[key]) if row.get(key) else "all" for key in ("check", "engine", "cell")),
             md(row["evidence"], 300)]
            for row in open_rows
        ]  # fmt: skip
        lines += [table(["status", "check", "engine", "cell", "evidence"], body, rows), ""]
    if passed:
        lines.append("Passed: " + ", ".join(f"{md(name)} ({number})" for name, number in passed.items()) + ".")
    skipped = list(dict.fromkeys(r["check"] for r in view.audit if r["status"] == "not_applicable"))
    if skipped:
        lines.append("\nNot applicable in some cell: " + ", ".join(md(name) for name in skipped) + ".")
    return "\n".join(lines)


def _status(status: str) -> str:
    return f"**{status.upper()}**" if status == "fail" else status.replace("_", " ")


def failed(view: View, rows: int) -> str:
    """Failed requests by kind, and the problems that flipped."""
    lines = ["## What failed", ""]
    failed = view.failed_requests
    if failed:
        body = [[md(f.engine), md(f.cell), md(f.kind), f"{f.requests:,}", md(f.message, 120)] for f in failures(failed)]
        lines += [table(["engine", "cell", "error", "requests", "the first one's message"], body, rows), ""]
    else:
        lines += ["No request failed.", ""]
    if view.flips:
        body = [
            [md(row["workload"]), md(row["prompt_id"], 60), md(row["gold"], 60),
             *(_graded(row["engines"].get(engine)) for engine in view.engines)]
            for row in view.flips
        ]  # fmt: skip
        header = ["workload", "problem", "gold", *(md(engine) for engine in view.engines)]
        lines += [f"{count(len(view.flips), 'problem')} flipped:", "", table(header, body, min(rows, 50))]
    return "\n".join(lines).rstrip()


def _graded(engine: JsonObject | None) -> str:
    if not engine:
        return UNKNOWN
    mark = "right" if engine.get("correct") else "wrong"
    answer = engine.get("answer")
    return f"{mark}: {md(answer, 60) if answer is not None else 'no answer'}"
