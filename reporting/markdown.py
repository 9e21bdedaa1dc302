"""A comparison as Markdown that fits into a pull-request comment: always under 60 KB, and inert."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from records import JsonObject
from reporting._escape import markdown as md
from reporting._escape import markdown_code
from reporting._format import (
    DAGGER_NOTE,
    UNKNOWN,
    count,
    metric_name,
    points,
    quantity,
    ratio_with_interval,
    share_with_interval,
    short_hash,
)
from reporting._view import View, failures

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
        _speed(view, rows),
        _answers(view, rows),
        _time(view, rows),
        _audit(view, rows),
        _failures(view, rows),
        _what_ran(view),
        _reproduce(view),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(view: View) -> str:
    lines = [f"# {md(view.headline, 1000)}"]
    if view.void:
        lines += ["", *(f"- {md(view.sentence(candidate), 1000)}" for candidate in view.candidates)]
    checks = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in view.audit_counts.items())
    lines += ["", f"Run {md(view.run_id)}, judged {md(view.created)}. Audit: {checks or 'no checks'}."]
    if view.caveats:
        lines += ["", *(f"- {md(caveat, 500)}" for caveat in view.caveats[:10])]
    return "\n".join(lines)


def _speed(view: View, rows: int) -> str:
    if not view.lead_rows:
        return "## Speed\n\nNo performance cell was measured."
    header = ["scenario / workload", "metric", f"{md(view.baseline)} (baseline)"]
    for candidate in view.candidates:
        header += [md(candidate), "speed ratio"]
    body = []
    for row in view.lead_rows:
        engines = row["engines"]
        unit = row.get("unit")
        line = [
            md(f"{row['scenario']} / {row['workload']}"),
            metric_name(row["metric"]),
            quantity(engines.get(view.baseline, {}).get("value"), unit),
        ]
        for candidate in view.candidates:
            line.append(quantity(engines.get(candidate, {}).get("value"), unit))
            line.append(ratio_with_interval((row.get("speed_ratio") or {}).get(candidate)))
        body.append(line)
    note = "A speed ratio above 1 means that the candidate is faster; 95% intervals in brackets."
    if view.blind:
        note += f" {DAGGER_NOTE}"
    return f"## Speed\n\n{note}\n\n{_table(header, body, rows, numeric=2)}"


def _answers(view: View, rows: int) -> str:
    quality = view.rows("quality")
    if not quality:
        return "## Answers\n\nNo graded workload was asked."
    header = ["workload", "n", f"{md(view.baseline)} (baseline)"]
    for candidate in view.candidates:
        header += [md(candidate), "difference"]
    body = []
    for row in quality:
        line = [md(row["workload"]), f"{row['n']:,}", _accuracy(row["engines"].get(view.baseline))]
        for candidate in view.candidates:
            line.append(_accuracy(row["engines"].get(candidate)))
            line.append(_difference((row.get("paired") or {}).get(candidate)))
        body.append(line)
    return f"## Answers\n\n{_table(header, body, rows, numeric=1)}"


def _time(view: View, rows: int) -> str:
    told = [row for row in view.rows("breakdown") if row.get("e2e_ms") is not None]
    if not told:
        return ""
    keys = ("queue_ms", "prefill_ms", "decode_ms", "e2e_ms")
    body = [[md(row["cell"]), md(row["engine"]), *(quantity(row.get(key), "ms") for key in keys)] for row in told]
    sources = "\n".join(f"- {md(source, 300)}" for source in dict.fromkeys(row["source"] for row in told))
    table = _table(["cell", "engine", "queue", "prefill", "decode", "E2E"], body, rows, numeric=2)
    return f"## Where the time goes\n\nOf the mean request.\n\n{table}\n\n{sources}"


def _accuracy(engine: JsonObject | None) -> str:
    if not engine:
        return UNKNOWN
    text = (
        f"{engine.get('correct')}/{engine.get('n')} = {share_with_interval(engine.get('accuracy'), engine.get('ci'))}"
    )
    notes = [
        f"{engine[key]} {word}"
        for key, word in (("truncated", "truncated"), ("no_answer", "without answer"), ("errors", "errors"))
        if engine.get(key)
    ]
    return text + (f"; {', '.join(notes)}" if notes else "")


def _difference(paired: JsonObject | None) -> str:
    if not paired:
        return UNKNOWN
    text = points(paired.get("difference"), paired.get("ci"))
    if paired.get("discordant") is not None:
        text += f"; {count(paired['discordant'], 'flip')}"
    p = paired.get("mcnemar_p")
    return (
        text + (f", p = {p:.2g}" if p is not None else "") + f"; {md(paired.get('text') or paired.get('verdict'), 300)}"
    )


def _audit(view: View, rows: int) -> str:
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
        lines += [_table(["status", "check", "engine", "cell", "evidence"], body, rows), ""]
    if passed:
        lines.append("Passed: " + ", ".join(f"{md(name)} ({number})" for name, number in passed.items()) + ".")
    skipped = list(dict.fromkeys(r["check"] for r in view.audit if r["status"] == "not_applicable"))
    if skipped:
        lines.append("\nNot applicable in some cell: " + ", ".join(md(name) for name in skipped) + ".")
    return "\n".join(lines)


def _status(status: str) -> str:
    return f"**{status.upper()}**" if status == "fail" else status.replace("_", " ")


def _failures(view: View, rows: int) -> str:
    lines = ["## What failed", ""]
    failed = view.failed_requests
    if failed:
        body = [[md(f.engine), md(f.cell), md(f.kind), f"{f.requests:,}", md(f.message, 120)] for f in failures(failed)]
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
        lines += [f"{count(len(view.flips), 'problem')} flipped:", "", _table(header, body, min(rows, 50))]
    return "\n".join(lines).rstrip()


def _graded(engine: JsonObject | None) -> str:
    if not engine:
        return UNKNOWN
    mark = "right" if engine.get("correct") else "wrong"
    answer = engine.get("answer")
    return f"{mark}: {md(answer, 60) if answer is not None else 'no answer'}"


def _what_ran(view: View) -> str:
    header = ["", *(md(engine) for engine in view.engines)]
    body = [[label, *(md(value, 200) for value in values)] for label, values in engine_facts(view)]
    lines = ["## What ran", "", _table(header, body, 30)]
    facts = run_facts(view)
    if facts:
        lines += ["", *(f"- {label}: {md(value, 400)}" for label, value in facts)]
    return "\n".join(lines)


def engine_facts(view: View) -> list[tuple[str, list[str]]]:
    """(label, value per engine) of what is known of the engines; lines that no engine tells are left out."""
    rows: list[tuple[str, list[str]]] = []

    def add(label: str, *keys: str, shown: Any = str) -> None:
        values = []
        for engine in view.engines:
            card = view.card(engine)
            value = next((card[key] for key in keys if card.get(key) is not None), None)
            values.append(UNKNOWN if value is None else shown(value))
        if any(value != UNKNOWN for value in values):
            rows.append((label, values))

    add("engine", "kind")
    add("build", "build")
    add("model", "model")
    add("weights SHA-256", "weights_sha256", shown=short_hash)
    add("source of the weights SHA-256", "weights_source_sha256", shown=short_hash)
    add("chat template SHA-256", "chat_template_sha256", shown=short_hash)
    add("context per slot", "context_per_slot", shown=lambda n: f"{n:,} tokens")
    add("context asked", "context_asked", shown=lambda n: f"{n:,} tokens")
    add("slots", "slots")
    add("rounds", "rounds")
    return rows


def run_facts(view: View) -> list[tuple[str, str]]:
    """(label, value) of what both engines had in common: profile, sampling, host, versions."""
    told = view.provenance
    host = told.get("host") or {}
    gpu = ", ".join(f"{g.get('name')} (driver {g.get('driver')})" for g in host.get("gpu") or [])
    git = told.get("git") or {}
    facts = {
        "profile": told.get("profile"),
        "sampling": _pairs(told.get("sampling")),
        "thinking": _switch(told.get("thinking")),
        "prefix cache": _switch(told.get("cache")),
        "started": told.get("started"),
        "CPU": f"{host['cpu']}, {host.get('cores')} cores" if host.get("cpu") else None,
        "GPU": gpu or None,
        "system": host.get("os"),
        "versions": _pairs(told.get("versions")),
        "commit": f"{git['commit'][:12]}{' (with changes)' if git.get('dirty') else ''}" if git.get("commit") else None,
        "workloads": "; ".join(
            workload_words(name, described) for name, described in (told.get("workloads") or {}).items()
        ) or None,
        "notes": "; ".join(str(note) for note in told.get("notes") or []) or None,
    }  # fmt: skip
    return [(label, str(value)) for label, value in facts.items() if value]


def workload_words(name: str, described: JsonObject) -> str:
    """Which prompts were asked, in words: "gsm8k: 50 prompts (first 50, 8 worked examples), SHA-256 ..."."""
    which = [words] if (words := described.get("subset")) and words != "all" else []
    if shots := described.get("few_shot"):
        which.append(f"{shots} worked example{'s' if shots > 1 else ''}")
    chosen = f" ({', '.join(which)})" if which else ""
    return f"{name}: {described.get('n', '?')} prompts{chosen}, SHA-256 {short_hash(described.get('sha256'))}"


def _pairs(values: JsonObject | None) -> str | None:
    return ", ".join(f"{key} {value}" for key, value in values.items() if value is not None) if values else None


def _switch(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"


def _reproduce(view: View) -> str:
    commands = view.provenance.get("commands") or [f"run_bench.py compare {view.run_id}"]
    lines = [markdown_code(command) for command in commands]
    return "\n".join(["## Reproduce", "", "```", *lines, "```"])


def _table(header: Sequence[str], body: Sequence[Sequence[str]], rows: int, numeric: int | None = None) -> str:
    """A Markdown table of at most `rows` rows; columns from `numeric` on are aligned to the right."""
    aligned = ["---:" if numeric is not None and i >= numeric else "---" for i in range(len(header))]
    lines = [_line(header), _line(aligned), *(_line(row) for row in body[:rows])]
    if len(body) > rows:
        lines.append(f"\n{len(body) - rows:,} more rows are in the HTML report and in the JSON.")
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


__all__ = ["engine_facts", "markdown", "run_facts"]
