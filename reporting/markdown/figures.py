"""The figures of a Markdown report: speed, answers, where the time goes. `rows` limits the rows of a table."""

from __future__ import annotations

from records import JsonObject
from reporting.answer_details import details, noise_floors
from reporting.escape import markdown as md
from reporting.format import (
    DAGGER_NOTE,
    UNKNOWN,
    count,
    metric_name,
    points,
    quantity,
    ratio_with_interval,
    share_with_interval,
)
from reporting.markdown.table import table
from reporting.view import View


def speed(view: View, rows: int) -> str:
    """The lead metrics with their speed ratios."""
    if not view.lead_rows:
        return "## Speed\n\nNo performance cell was measured."
    note = "A speed ratio above 1 means that the candidate is faster (energy, memory: needs less); "
    note += "95% intervals in brackets."
    if view.blind:
        note += f" {DAGGER_NOTE}"
    return f"## Speed\n\n{note}\n\n{_speed_table(view, view.lead_rows, rows)}"


def steps(view: View, rows: int) -> str:
    """Sweeps, level by level; empty without one."""
    return f"## Step by step\n\n{_speed_table(view, view.step_rows, rows)}" if view.step_rows else ""


def _speed_table(view: View, of: list[JsonObject], rows: int) -> str:
    header = ["scenario / workload", "metric", f"{md(view.baseline)} (baseline)"]
    for candidate in view.candidates:
        header += [md(candidate), "speed ratio"]
    body = []
    for row in of:
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
    return table(header, body, rows, numeric=2)


def answers(view: View, rows: int) -> str:
    """Accuracy of each engine, and the paired differences."""
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
    return "\n\n".join(["## Answers", table(header, body, rows, numeric=1), *_how_found(view, rows)])


def _how_found(view: View, rows: int) -> list[str]:
    header = ["workload", "engine", "right by the strict rule", "found by", "truncated", "without answer", "requests"]
    told = details(view)
    body = [
        [md(one.workload), md(one.engine), one.strict, md(one.methods), one.truncated, one.no_answer, one.failed]
        for one in told
    ]
    notes = [f"- {md(f'{one.workload}, {one.engine}: {one.samples}', 300)}" for one in told if one.samples]
    notes += [f"- {md(floor, 300)}" for floor in noise_floors(view)]
    return [table(header, body, rows, numeric=2), *(["\n".join(notes)] if notes else [])]


def time(view: View, rows: int) -> str:
    """The mean request's time in parts; empty where nothing is known of it."""
    told = [row for row in view.rows("breakdown") if row.get("e2e_ms") is not None]
    if not told:
        return ""
    keys = ("queue_ms", "prefill_ms", "decode_ms", "e2e_ms")
    body = [[md(row["cell"]), md(row["engine"]), *(quantity(row.get(key), "ms") for key in keys)] for row in told]
    sources = "\n".join(f"- {md(source, 300)}" for source in dict.fromkeys(row["source"] for row in told))
    shown = table(["cell", "engine", "queue", "prefill", "decode", "E2E"], body, rows, numeric=2)
    return f"## Where the time goes\n\nOf the mean request.\n\n{shown}\n\n{sources}"


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
