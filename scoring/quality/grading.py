"""Each answer graded: what became of every prompt and sample that an engine was asked.

A row that is missing and a request that failed are wrong, and counted apart. Of several records for one prompt and
sample the last good one counts, else the last.
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
    """What became of one prompt and sample. `error` is an error kind, or "missing" where there is no record."""

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
    """What every engine owes an answer to, in the workload's order.

    All prompts with all samples; of a cell that asks a number of requests, what any engine was asked. A duration lets
    the faster engine come further: then it is what all were asked, since no answer is wrong for being late.
    """
    captures = list(captures)
    samples = max((int(c.asked.get("samples") or 1) for c in captures), default=1)
    keys = [(prompt_id, sample) for sample in range(samples) for prompt_id in prompts]
    if asks_all:
        return keys
    told = [set(_keys(c)) for c in captures]
    by_time = any(c.ends_by_time for c in captures)
    asked = set.intersection(*told) if told and by_time else set().union(*told)
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
        if (found := chosen.get(key)) is None:
            outcomes[key] = MISSING
            continue
        finish = finishes[found]
        text, reasoning = capture.texts[found], capture.reasonings[found]
        if not ok[found]:
            kind = str(capture.requests["error_kind"].iloc[found] or "error")
            outcomes[key] = Outcome(False, False, None, "none", False, finish, kind, text, reasoning)
            continue
        prompt = prompts[key[0]]
        calls = capture.tool_calls.get(found, [])
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
    """What can be compared as text: the outcomes without an error."""
    return {key: Answered(o.reasoning + o.text, o.answer) for key, o in outcomes.items() if o.error is None}
