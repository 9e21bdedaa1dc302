"""Renders a comparison as Markdown for a pull-request comment: always under 60 KB, with all untrusted text escaped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from records import JsonObject
from reporting.capacity import capacity_facts, capacity_lead
from reporting.conversations import REUSE_HEADER, REUSE_LEAD, conversation_notes, reuse_table
from reporting.escape import markdown as md
from reporting.escape import markdown_code
from reporting.finding import finding
from reporting.format import (
    DAGGER_NOTE,
    UNKNOWN,
    count,
    metric_name,
    points,
    quantity,
    ratio_with_interval,
    share_with_interval,
    shown_interval,
)
from reporting.machine import MACHINE_COLUMNS, MACHINE_LEAD, machine_facts
from reporting.next_steps import step_of
from reporting.run_facts import (
    CANCELLATION_LEAD,
    answer_facts,
    cancellation_notes,
    commands,
    engine_facts,
    failures,
    noise_floors,
    run_facts,
)
from reporting.terms import spelled_out
from reporting.view import View, cell_of

LIMIT_BYTES = 60_000

_ROWS = (300, 120, 50, 20, 8, 3)
"""Rows that a table may have, tried in turn until the whole report fits."""


def markdown(comparison: JsonObject) -> str:
    """The report. Rows that do not fit are counted; the HTML report and the JSON have them."""
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
        _at_a_glance(view, rows),
        _speed(view, rows),
        _capacity(view, rows),
        _steps(view, rows),
        _conversations(view, rows),
        _cancelled(view, rows),
        _answers(view, rows),
        _time(view, rows),
        _audit(view, rows),
        _failed(view, rows),
        _machine(view, rows),
        _what_ran(view),
        _reproduce(view),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(view: View) -> str:
    found = finding(view)
    headings = [f"# {md(line, 1000)}" for line in view.night_lines[:1]]
    notes = [f"- {md(line, 500)}" for line in view.night_lines[1:]]
    lines = [*headings, "", *notes, "", f"## {md(found.first_line, 1000)}", ""] if headings else []
    lines = lines or [f"# {md(found.first_line, 1000)}", ""]
    lines += [f"- **{label}:** {md(text, 500)}" for label, text in found.paragraphs[:20]]
    counts = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in view.audit_counts.items())
    lines += ["", f"Run {md(view.run_id)}, judged {md(view.created)}. Audit: {counts or 'no checks'}."]
    if view.caveats:
        lines += ["", *(f"- {md(caveat, 500)}" for caveat in view.caveats[:10])]
    return "\n".join(lines)


# Speed


def _at_a_glance(view: View, rows: int) -> str:
    """The deciding figures, a line for each cell."""
    metrics = list(dict.fromkeys(row["metric"] for row in view.deciding_rows))
    if not metrics or not view.candidates:
        return ""
    by_place = {(cell_of(row), row["metric"]): row for row in view.deciding_rows}
    header = ["cell", *([] if len(view.candidates) == 1 else ["candidate"]), *(spelled_out(m) for m in metrics)]
    body = []
    for cell in dict.fromkeys(cell_of(row) for row in view.deciding_rows):
        for candidate in view.candidates:
            found = [by_place.get((cell, metric)) for metric in metrics]
            line = [ratio_with_interval((row["speed_ratio"] or {}).get(candidate)) if row else UNKNOWN for row in found]
            body.append([md(cell), *([] if len(view.candidates) == 1 else [md(candidate)]), *line])
    against = f"{md(view.candidates[0])} against {md(view.baseline)}" if len(view.candidates) == 1 else "each candidate"
    note = f"Speed ratio of {against}, with its 95% interval; above 1 the candidate is faster."
    return f"{note}{f' {DAGGER_NOTE}' if view.blind else ''}\n\n{_table(header, body, rows)}"


def _speed(view: View, rows: int) -> str:
    """The lead metrics with their speed ratios."""
    if not view.lead_rows:
        return "## Speed\n\nNo performance cell was measured."
    note = "A speed ratio above 1 means that the candidate is faster (energy, memory: needs less); "
    note += "95% intervals in brackets. Figures without a verdict word are exploratory."
    return f"## Speed\n\n{note}\n\n{_speed_table(view, view.lead_rows, rows)}"


def _steps(view: View, rows: int) -> str:
    """Sweeps, level by level; empty without one."""
    return f"## Step by step\n\n{_speed_table(view, view.step_rows, rows)}" if view.step_rows else ""


def _conversations(view: View, rows: int) -> str:
    """Conversations turn by turn, and what prefixes were reused; empty without either."""
    parts = []
    if view.turn_rows:
        notes = "\n".join(f"- {md(note, 300)}" for note in conversation_notes(view))
        parts += [f"## Turns of conversations\n\n{notes}", _speed_table(view, view.turn_rows, rows)]
    if found := reuse_table(view):
        body = [[md(word) for word in line] for line in found]
        parts += [f"## Reused prefixes\n\n{REUSE_LEAD}", _table(list(REUSE_HEADER), body, rows, numeric=3)]
    return "\n\n".join(parts)


def _capacity(view: View, rows: int) -> str:
    """The capacity searches; empty without one."""
    found = capacity_facts(view)
    if not found:
        return ""
    body = [[md(f.cell), md(f.engine), f.round, md(f.result, 200), f.judged, md(f.levels, 400)] for f in found]
    header = ["cell", "engine", "round", "capacity", "requests judged", "levels in their order"]
    return f"## Capacity\n\n{md(capacity_lead(view), 500)}\n\n{_table(header, body, rows)}"


def _cancelled(view: View, rows: int) -> str:
    """The effect of cancelled requests on the others; empty if no request was cancelled on purpose."""
    found = view.cancellation_rows
    if not found:
        return ""
    body = [
        [
            md(row["cell"]),
            md(row["engine"]),
            metric_name(row["metric"]),
            *(quantity((row.get(side) or {}).get("value"), row.get("unit")) for side in ("without", "with")),
            ratio_with_interval(row.get("speed_ratio")),
        ]
        for row in found
    ]
    table = _table(["cell", "engine", "metric", "without", "with", "speed ratio"], body, rows, numeric=3)
    notes = "\n".join(f"- {md(note, 300)}" for note in cancellation_notes(view))
    return f"## Cancelled requests\n\n{CANCELLATION_LEAD}\n\n{notes}\n\n{table}"


def _speed_table(view: View, speed_rows: list[JsonObject], rows: int) -> str:
    header = ["scenario / workload", "metric", f"{md(view.baseline)} (baseline)"]
    for candidate in view.candidates:
        header += [md(candidate), "speed ratio"]
    body = []
    for row in speed_rows:
        engines, unit = row["engines"], row.get("unit")
        line = [
            md(f"{row['scenario']} / {row['workload']}"),
            metric_name(row["metric"]),
            quantity((engines.get(view.baseline) or {}).get("value"), unit),
        ]
        for candidate in view.candidates:
            line.append(quantity((engines.get(candidate) or {}).get("value"), unit))
            line.append(ratio_with_interval((row.get("speed_ratio") or {}).get(candidate)))
        body.append(line)
    return _table(header, body, rows, numeric=2)


def _time(view: View, rows: int) -> str:
    """The mean request's time, split into parts; empty if it is unknown."""
    known = [row for row in view.rows("breakdown") if row.get("e2e_ms") is not None]
    if not known:
        return ""
    keys = ("queue_ms", "prefill_ms", "decode_ms", "e2e_ms")
    body = [[md(row["cell"]), md(row["engine"]), *(quantity(row.get(key), "ms") for key in keys)] for row in known]
    sources = "\n".join(f"- {md(source, 300)}" for source in dict.fromkeys(row["source"] for row in known))
    table = _table(["cell", "engine", "queue", "prefill", "decode", "E2E (end-to-end)"], body, rows, numeric=2)
    return f"## Where the time goes\n\nOf the mean request.\n\n{table}\n\n{sources}"


# Answers


def _answers(view: View, rows: int) -> str:
    """Accuracy of each engine, the paired differences, and how the answers were found."""
    quality = view.rows("quality")
    if not quality:
        return "## Answers\n\nNo graded workload was asked."
    header = ["workload", "problems", f"{md(view.baseline)} (baseline)"]
    for candidate in view.candidates:
        header += [md(candidate), "difference"]
    body = []
    for row in quality:
        line = [md(row["workload"]), f"{row['n']:,}", _accuracy(row["engines"].get(view.baseline))]
        for candidate in view.candidates:
            line.append(_accuracy(row["engines"].get(candidate)))
            line.append(_difference((row.get("paired") or {}).get(candidate)))
        body.append(line)
    sections = ["## Answers", _table(header, body, rows, numeric=1)]
    facts = answer_facts(view)
    header = ["workload", "engine", "right by the strict rule", "found by", "truncated", "without answer", "requests"]
    body = [[md(f.workload), md(f.engine), f.strict, md(f.methods), f.truncated, f.no_answer, f.failed] for f in facts]
    sections.append(_table(header, body, rows, numeric=2))
    notes = [f"- {md(f'{f.workload}, {f.engine}: {f.samples}', 300)}" for f in facts if f.samples]
    notes += [f"- {md(floor, 300)}" for floor in noise_floors(view)]
    return "\n\n".join([*sections, *(["\n".join(notes)] if notes else [])])


def _accuracy(engine: JsonObject | None) -> str:
    if not engine:
        return UNKNOWN
    share = share_with_interval(engine.get("accuracy"), engine.get("ci"))
    notes = [
        f"{engine[key]} {word}"
        for key, word in (("truncated", "truncated"), ("no_answer", "without answer"), ("errors", "errors"))
        if engine.get(key)
    ]
    return "; ".join([f"{engine.get('correct')}/{engine.get('n')} = {share}", *([", ".join(notes)] if notes else [])])


def _difference(paired: JsonObject | None) -> str:
    if not paired:
        return UNKNOWN
    text = points(paired.get("difference"), shown_interval(paired))
    if paired.get("discordant") is not None:
        text += f"; {count(paired['discordant'], 'flip')}"
    if (p := paired.get("mcnemar_p")) is not None:
        text += f", p = {p:.2g}"
    return f"{text}; {md(paired.get('text') or paired.get('verdict'), 300)}"


# Audit, failures, machine and provenance


def _audit(view: View, rows: int) -> str:
    """The checks that did not pass, and the names of the others."""
    if not view.audit:
        return "## Audit\n\nNo check was made, so nothing shows that this comparison was fair."
    lines = ["## Audit: was it fair?", ""]
    body = [
        [f"**{row['status'].upper()}**" if row["status"] == "fail" else str(row["status"]),
         *(md(row[key]) if row.get(key) else "all" for key in ("check", "engine", "cell")), md(row["evidence"], 300),
         md(step_of(row)) or UNKNOWN]
        for row in view.audit
        if row["status"] not in ("pass", "not_applicable")
    ]  # fmt: skip
    if body:
        lines += [_table(["status", "check", "engine", "cell", "evidence", "what to do"], body, rows), ""]
    passed = Counter(row["check"] for row in view.audit if row["status"] == "pass")
    if passed:
        lines.append("Passed: " + ", ".join(f"{md(name)} ({number})" for name, number in passed.items()) + ".")
    skipped = list(dict.fromkeys(r["check"] for r in view.audit if r["status"] == "not_applicable"))
    if skipped:
        lines.append("\nNot applicable in some cell: " + ", ".join(md(name) for name in skipped) + ".")
    return "\n".join(lines)


def _failed(view: View, rows: int) -> str:
    """Failed requests by kind, and the problems that one engine answered right and another wrong."""
    lines = ["## What failed", ""]
    if view.failed_requests:
        body = [
            [md(f.engine), md(f.cell), md(f.kind), f"{f.requests:,}", md(f.message, 120)]
            for f in failures(view.failed_requests)
        ]
        lines += [_table(["engine", "cell", "error", "requests", "the first one's message"], body, rows), ""]
    else:
        lines += ["No request failed.", ""]
    if view.flips:
        body = [
            [md(row["workload"]), md(row["prompt_id"], 60), md(row["gold"], 60),
             *(_graded(row["engines"].get(engine)) for engine in view.engines)]
            for row in view.flips
        ]  # fmt: skip
        header = ["workload", "problem", "gold", *(md(engine) for engine in view.engines)]
        lines += [f"{count(len(view.flips), 'problem')} flipped (one engine right, another wrong):", ""]
        lines.append(_table(header, body, min(rows, 50)))
    return "\n".join(lines).rstrip()


def _graded(engine: JsonObject | None) -> str:
    if not engine:
        return UNKNOWN
    answer = engine.get("answer")
    return f"{'right' if engine.get('correct') else 'wrong'}: {md(answer, 60) if answer is not None else 'no answer'}"


def _machine(view: View, rows: int) -> str:
    """The machine under each engine, cell by cell; empty where it was not sampled."""
    body = [[md(f.cell), md(f.engine), *(md(value, 100) for value in f.values)] for f in machine_facts(view)]
    if not body:
        return ""
    return f"## The machine\n\n{MACHINE_LEAD}\n\n{_table(['cell', 'engine', *MACHINE_COLUMNS], body, rows, numeric=2)}"


def _what_ran(view: View) -> str:
    header = ["", *(md(engine) for engine in view.engines)]
    body = [[label, *(md(value, 200) for value in values)] for label, values in engine_facts(view)]
    lines = ["## What ran", "", _table(header, body, 30)]
    if facts := run_facts(view):
        lines += ["", *(f"- {label}: {md(value, 400)}" for label, value in facts)]
    return "\n".join(lines)


def _reproduce(view: View) -> str:
    lines = [markdown_code(command) for command in commands(view)]
    return "\n".join(["## Reproduce", "", "```", *lines, "```"])


def _table(header: Sequence[str], body: Sequence[Sequence[str]], rows: int, numeric: int | None = None) -> str:
    """A table of at most `rows` rows; columns from `numeric` on are aligned to the right."""
    aligned = ["---:" if numeric is not None and i >= numeric else "---" for i in range(len(header))]
    lines = [_row(header), _row(aligned), *(_row(row) for row in body[:rows])]
    if len(body) > rows:
        lines.append(f"\n{len(body) - rows:,} more rows are in the HTML report and in the JSON.")
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
