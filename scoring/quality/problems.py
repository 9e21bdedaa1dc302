"""Lists every engine's answer to each problem, for the comparison's `problems`."""

from __future__ import annotations

from collections.abc import Mapping

import workloads as tasks
from records import JsonObject
from scoring.quality.grading import Outcome, Outcomes

COMPLETION_LIMIT = 8192
"""Characters of a completion that a comparison includes."""
COMPLETIONS_FOR_ALL = 3000
"""A cell with more answers than this includes only completions of problems that flipped or that an engine got wrong."""


def problem_rows(
    cell: str, workload: str, prompts: Mapping[str, tasks.Prompt], outcomes: Mapping[str, Outcomes], baseline: str
) -> list[JsonObject]:
    """One row for each prompt and sample, with every engine's answer, for the comparison's `problems`."""
    keys = list(outcomes[baseline]) if baseline in outcomes else sorted({k for o in outcomes.values() for k in o})
    rows = []
    for key in keys:
        prompt = prompts[key[0]]
        verdicts = {engine: graded[key] for engine, graded in outcomes.items() if key in graded}
        flipped = len({o.correct for o in verdicts.values()}) > 1
        carry = len(keys) <= COMPLETIONS_FOR_ALL or flipped or not all(o.correct for o in verdicts.values())
        rows.append(
            {
                "cell": cell,
                "workload": workload,
                "prompt_id": key[0],
                "sample": key[1],
                "task": prompt.task,
                "gold": prompt.gold,
                "prompt": prompt.messages[-1]["content"][:COMPLETION_LIMIT],
                "flipped": flipped,
                "engines": {engine: _problem_engine(o, carry=carry) for engine, o in verdicts.items()},
            }
        )
    return rows


def _problem_engine(outcome: Outcome, *, carry: bool) -> JsonObject:
    return {
        "answer": outcome.answer,
        "correct": outcome.correct,
        "strict": outcome.strict,
        "method": outcome.method,
        "fault": outcome.fault,
        "truncated": outcome.truncated,
        "finish_reason": outcome.finish_reason,
        "error": outcome.error,
        "completion": outcome.text[:COMPLETION_LIMIT] if carry else None,
        "completion_chars": len(outcome.text),
        "reasoning": outcome.reasoning[:COMPLETION_LIMIT] if carry and outcome.reasoning else None,
    }
