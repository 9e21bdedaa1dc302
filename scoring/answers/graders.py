"""What judges an answer: the grader that its prompt names, else `answer`, the rule for stated numbers and text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scoring.answers.choice import grade_choice
from scoring.answers.extract import Grade, Method, answer_part, grade
from scoring.answers.numbers import value
from scoring.answers.structured import check_schema, grade_json
from scoring.answers.tools import check_gold, grade_tools, parameters_of
from workloads import Prompt
from workloads.prompts import schema_of


@dataclass(frozen=True, slots=True)
class Reply:
    """What an engine answered: its text, and the tool calls beside it."""

    text: str
    finish_reason: str | None = "stop"
    tool_calls: Sequence[Mapping[str, Any]] = ()


def judge(prompt: Prompt, reply: Reply) -> Grade:
    """Judge a reply by the grader of its prompt. Never raises for any text."""
    return GRADERS[prompt.grader or "answer"](prompt, reply)


def _answer(prompt: Prompt, reply: Reply) -> Grade:
    return grade(prompt.task, reply.text, prompt.gold, reply.finish_reason)


def _exact(prompt: Prompt, reply: Reply) -> Grade:
    """The whole answer, without thinking and white space around it, is the gold; flexibly also in other case."""
    text = (answer_part(reply.text) or "").strip()
    gold = (prompt.gold or "").strip()
    if not text or reply.finish_reason == "length":
        return Grade(False, False, None, Method.NONE, reply.finish_reason == "length")
    correct = " ".join(text.split()).casefold().rstrip(".") == " ".join(gold.split()).casefold().rstrip(".")
    return Grade(correct, text == gold, " ".join(text.split())[:80], Method.WHOLE, False)


def _numeric(prompt: Prompt, reply: Reply) -> Grade:
    return grade("numeric", reply.text, prompt.gold, reply.finish_reason)


def _choice(prompt: Prompt, reply: Reply) -> Grade:
    return grade_choice(reply.text, prompt.gold or "", reply.finish_reason)


def _json(prompt: Prompt, reply: Reply) -> Grade:
    return grade_json(reply.text, prompt.gold, schema_of(prompt.request), reply.finish_reason)


def _tools(prompt: Prompt, reply: Reply) -> Grade:
    return grade_tools(reply.tool_calls, reply.text, prompt.gold or "[]", prompt.request or {}, reply.finish_reason)


GRADERS: dict[str, Callable[[Prompt, Reply], Grade]] = {
    "answer": _answer,
    "exact": _exact,
    "numeric": _numeric,
    "choice": _choice,
    "json": _json,
    "tools": _tools,
}


def check_gradable(prompts: Iterable[Prompt]) -> None:
    """Look at golds and schemas before anything is asked.

    Raises:
        ValueError: one line that names the prompt and what is wrong.
    """
    for prompt in prompts:
        try:
            _check(prompt)
        except ValueError as error:
            raise ValueError(f"prompt {prompt.prompt_id!r}: {error}") from None


def _check(prompt: Prompt) -> None:
    gold, grader = prompt.gold, prompt.grader
    if schema := schema_of(prompt.request):
        check_schema(schema)
    for parameters in parameters_of(prompt.request or {}).values():
        check_schema(parameters)
    if grader in ("json", "tools") and gold is not None:
        try:
            json.loads(gold)
        except ValueError as error:
            raise ValueError(f"the gold of `{grader}` is no JSON: {error}") from None
    if grader == "tools" and gold is not None:
        check_gold(gold, prompt.request or {})
    if grader == "numeric" and (gold is None or value(gold) is None):
        raise ValueError(f"the gold of `numeric` is no number: {gold!r}")
    if grader == "choice" and (gold is None or len(gold.strip()) != 1 or gold.strip().upper() not in "ABCDEFGHIJ"):
        raise ValueError(f"the gold of `choice` is a letter from A to J, not {gold!r}")
