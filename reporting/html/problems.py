"""Shows the problems of graded cells: which engine was right, and answers side by side with the first difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from records import JsonObject
from reporting.escape import BLOCK_LIMIT, one_line, visible
from reporting.format import count
from reporting.run_facts import FAULTS
from reporting.view import View, cell_of, is_flip
from scoring.quality.divergence import first_difference

ROOM = 2_200_000
"""Characters of prompts and answers that a page shows in full."""
MOST = 150
LISTED = 1500
MARKED = 40

METHODS = {
    "boxed": "the last box",
    "hash": "a #### line",
    "phrase": "“the answer is …”",
    "last_number": "the last number, since no answer was marked",
    "whole": "the whole text",
    "line": "a line with a letter",
    "last_letter": "the last letter, since no answer was marked",
    "json": "the whole text, which is JSON",
    "fenced": "the JSON in a code fence",
    "in_text": "JSON with text round it",
    "tool_calls": "tool calls",
    "text": "text without a tool call",
    "none": "no answer found",
}


@dataclass(frozen=True)
class Side:
    """One engine's answer. Its text is `same` + `marked` + `rest`; `marked` is the first difference."""

    engine: str
    css: str
    correct: bool
    why: str
    same: str
    marked: str
    rest: str
    cut: str
    reasoning: str


@dataclass(frozen=True)
class Problem:
    """A problem with each engine's answer, as the page shows it."""

    title: str
    workload: str
    kind: str
    gold: str
    prompt: str
    summary: str
    sides: list[Side]


@dataclass(frozen=True)
class Problems:
    """The problems shown in full, those only listed, and the number of the others."""

    shown: list[Problem]
    listed: list[list[str]]
    counts: list[tuple[str, int]]
    unlisted: int


def problems(view: View) -> Problems:
    """Flips first, then problems that no engine got right, up to the size limit; the others are listed."""
    rows = view.rows("problems")
    flips, failed = view.flips, view.both_failed
    shown: list[Problem] = []
    listed: list[list[str]] = []
    used = unlisted = 0
    for kind, group in (("flipped", flips), ("no engine right", failed)):
        for row in group:
            size = _size(row)
            if len(shown) < MOST and used + size <= ROOM:
                shown.append(_problem(view, row, kind))
                used += size
            elif len(listed) < LISTED:
                listed.append(_listed(view, row, kind))
            else:
                unlisted += 1
    right = len(rows) - len(flips) - len(failed)
    counts = [("flipped", len(flips)), ("no engine right", len(failed)), ("every engine right", right)]
    return Problems(shown, listed, counts if rows else [], unlisted)


def _size(row: JsonObject) -> int:
    texts = [row.get("prompt") or ""]
    for engine in row["engines"].values():
        texts += [engine.get("completion") or "", engine.get("reasoning") or ""]
    return sum(min(len(text), BLOCK_LIMIT) for text in texts) + 600


def _problem(view: View, row: JsonObject, kind: str) -> Problem:
    sides, answers = [], row["engines"]
    baseline = (answers.get(view.baseline) or {}).get("completion")
    first = next((answers[c].get("completion") for c in view.candidates if c in answers), None)
    for i, engine in enumerate(view.engines):
        if engine not in answers:
            continue
        other = first if engine == view.baseline else baseline
        sides.append(_side(answers[engine], engine, f"s{i % 6}", other))
    sample = f", sample {row['sample']}" if row.get("sample") else ""
    return Problem(
        title=one_line(row["prompt_id"], 80) + sample,
        workload=one_line(row["workload"], 80),
        kind=kind,
        gold=one_line(row.get("gold"), 200),
        prompt=visible(row.get("prompt") or "", BLOCK_LIMIT),
        summary=", ".join(f"{side.engine} {'right' if side.correct else 'wrong'}" for side in sides),
        sides=sides,
    )


def _side(answer: JsonObject, engine: str, css: str, other: str | None) -> Side:
    text = answer.get("completion")
    total = answer.get("completion_chars") or len(text or "")
    same, marked, rest = _split(text or "", other)
    cut = total - min(len(text or ""), BLOCK_LIMIT)
    return Side(
        engine=one_line(engine, 60),
        css=css,
        correct=bool(answer.get("correct")),
        why=why(answer),
        same=visible(same),
        marked=visible(marked),
        rest=visible(rest),
        cut=f"{count(cut, 'character')} more are in the records." if cut > 0 else "",
        reasoning=visible(answer.get("reasoning") or "", BLOCK_LIMIT),
    )


def _split(text: str, other: str | None) -> tuple[str, str, str]:
    """Split a text in three: the part equal to the other text, the first difference (up to its word's end), rest."""
    text = text[:BLOCK_LIMIT]
    if other is None or other[:BLOCK_LIMIT] == text:
        return "", "", text
    at = first_difference(text, other) or 0
    end = min(len(text), at + MARKED)
    for i in range(at + 1, end):
        if text[i].isspace():
            end = i
            break
    return text[:at], text[at:end] or "∎", text[end:]


def why(answer: JsonObject) -> str:
    """The reason for a grade, as text."""
    if error := answer.get("error"):
        return "not answered: no record" if error == "missing" else f"request failed: {one_line(error, 200)}"
    words = []
    if answer.get("answer") is None:
        words.append("no answer found")
    else:
        method = METHODS.get(str(answer.get("method")), one_line(answer.get("method"), 40))
        words.append(f"answer {one_line(answer['answer'], 80)}, from {method}")
    if answer.get("correct") and answer.get("strict") is False:
        words.append("not right by the strict rule")
    if fault := answer.get("fault"):
        words.append(f"wrong {FAULTS.get(str(fault), one_line(fault, 20))}")
    if answer.get("truncated"):
        words.append("cut at its token limit")
    if finish := answer.get("finish_reason"):
        words.append(f"finish reason {one_line(finish, 40)}")
    return "; ".join(words)


def _listed(view: View, row: JsonObject, kind: str) -> list[str]:
    answers = []
    for engine in view.engines:
        answer = row["engines"].get(engine) or {}
        mark = "right" if answer.get("correct") else "wrong"
        answers.append(f"{mark}: {one_line(answer['answer'], 40) if answer.get('answer') is not None else 'no answer'}")
    return [
        kind,
        one_line(row["workload"], 60),
        one_line(row["prompt_id"], 60),
        one_line(row.get("gold"), 40),
        *answers,
    ]


@dataclass(frozen=True)
class FlipGrid:
    """One square per problem and engine. `columns` has, per problem, its name and whether each engine was right."""

    title: str
    engines: Sequence[str]
    columns: list[tuple[str, list[bool | None]]]
    note: str


def flip_grids(view: View, most: int = 120) -> list[FlipGrid]:
    """A grid per graded cell; if not all problems fit, only those that flipped."""
    grids = []
    by_cell: dict[str, list[JsonObject]] = {}
    for row in view.rows("problems"):
        by_cell.setdefault(cell_of(row), []).append(row)
    for cell, rows in by_cell.items():
        flips = [row for row in rows if is_flip(row)]
        chosen = rows if len(rows) <= most else flips[:most]
        note = f"{count(len(flips), 'flip')} in {count(len(rows), 'problem')}"
        if len(chosen) < len(rows):
            note += f"; shown are {count(len(chosen), 'flip')}"
        columns = [
            (one_line(row["prompt_id"], 60), [_right(row["engines"].get(engine)) for engine in view.engines])
            for row in chosen
        ]
        if columns:
            grids.append(FlipGrid(one_line(cell, 80), [one_line(e, 40) for e in view.engines], columns, note))
    return grids


def _right(answer: JsonObject | None) -> bool | None:
    return None if answer is None else bool(answer.get("correct"))
