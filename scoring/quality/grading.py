"""Grades the answers of a capture: one outcome per prompt and sample that an engine was asked.

A missing record and a failed request are wrong, and are counted separately. If one prompt and sample has several
records, the last good one counts, else the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import workloads as tasks
from scoring.answers.graders import Reply, judge
from scoring.captures import Capture
from scoring.quality.divergence import Answered, Key


@dataclass(frozen=True, slots=True)
class Outcome:
    """The graded result of one prompt and sample. `error` is an error kind, or "missing" where there is no record."""

    correct: bool
    strict: bool
    answer: str | None
    method: str
    truncated: bool
    finish_reason: str | None
    error: str | None
    text: str
    reasoning: str
    fault: str | None = None
    """What is wrong with JSON or tool calls, a `scoring.answers.extract.Fault`."""


MISSING = Outcome(False, False, None, "none", False, None, "missing", "", "")

Outcomes = dict[Key, Outcome]


def graded_prompts(prompts: Iterable[tasks.Prompt]) -> dict[str, tasks.Prompt]:
    """The measured prompts whose answers can be judged, by id."""
    return {p.prompt_id: p for p in prompts if p.graded and p.pool == tasks.MEASURE}


def asked_keys(prompts: Mapping[str, tasks.Prompt], captures: Iterable[Capture], *, asks_all: bool) -> list[Key]:
    """The prompts and samples on which every engine is graded, in the workload's order.

    A cell that asks all prompts: all of them, with all samples. A cell with a number of requests: those that any engine
    was asked. A cell by duration, where the faster engine gets further: those that all engines were asked, because a
    late answer is not a wrong answer.
    """
    captures = list(captures)
    samples = max((int(c.asked.get("samples") or 1) for c in captures), default=1)
    keys = [(prompt_id, sample) for sample in range(samples) for prompt_id in prompts]
    if asks_all:
        return keys
    recorded = [set(_keys(c)) for c in captures]
    by_time = any(c.ends_by_time for c in captures)
    asked = set.intersection(*recorded) if recorded and by_time else set().union(*recorded)
    return [key for key in keys if key in asked]


def _keys(capture: Capture) -> list[Key]:
    measured = capture.measured
    return [(str(p), int(s)) for p, s in zip(measured["prompt_id"], measured["sample"], strict=True)]


def grade_capture(capture: Capture, prompts: Mapping[str, tasks.Prompt], keys: Sequence[Key]) -> Outcomes:
    """Grade one engine's answers of one round."""
    chosen: dict[Key, int] = {}
    ok = capture.requests["ok"].to_numpy(bool)
    finishes: list[str | None] = capture.requests["finish_reason"].tolist()
    for row, key in zip(capture.measured.index, _keys(capture), strict=True):
        before = chosen.get(key)
        if before is None or ok[row] or not ok[before]:
            chosen[key] = int(row)
    outcomes: Outcomes = {}
    for key in keys:
        if (row := chosen.get(key)) is None:
            outcomes[key] = MISSING
            continue
        finish = finishes[row]
        text, reasoning = capture.texts[row], capture.reasonings[row]
        if not ok[row]:
            kind = str(capture.requests["error_kind"].iloc[row] or "error")
            outcomes[key] = Outcome(False, False, None, "none", False, finish, kind, text, reasoning)
            continue
        prompt = prompts[key[0]]
        calls = capture.tool_calls.get(row, [])
        judged = judge(prompt, Reply(text, finish, calls))
        outcomes[key] = Outcome(
            judged.correct,
            judged.strict,
            judged.answer,
            str(judged.method),
            judged.truncated,
            finish,
            None,
            text + "".join(f"\n{call['name']}({call['arguments']})" for call in calls),
            reasoning,
            judged.fault,
        )
    return outcomes


def answered(outcomes: Outcomes) -> dict[Key, Answered]:
    """The outcomes without an error, as texts to compare."""
    return {key: Answered(o.reasoning + o.text, o.answer) for key, o in outcomes.items() if o.error is None}
