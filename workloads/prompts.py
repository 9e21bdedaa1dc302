"""Prompts and the files that hold them, one per line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from records import prompt_sha256
from records.files import parse_json, replacing, require_regular
from workloads.conversations import FIXED, Turn, messages_of, sharegpt_rows, turns_of_row
from workloads.problem_sets import TaskError

MEASURE, WARMUP = "measure", "warmup"

GRADERS = ("answer", "exact", "numeric", "choice", "json", "tools")
"""What can judge an answer (docs/answers.md); `scoring.answers.graders` has them."""
RESERVED = frozenset({"messages", "prompt", "model", "stream", "stream_options", "n", "max_tokens"})
"""Fields that a prompt's `request` may not have: the load, the cell or the engine decides on them."""

Message = dict[str, str]


@dataclass(frozen=True)
class Prompt:
    """One thing to ask. `gold` is None where nothing is graded; `max_tokens` None leaves it to the profile.

    With `turns` it is a conversation, and `messages` are those of its first turn.
    """

    prompt_id: str
    messages: tuple[Message, ...]
    gold: str | None = None
    task: str = "jsonl"
    pool: str = MEASURE
    max_tokens: int | None = None
    input_tokens: int | None = None
    """Planned tokens of its text, without a chat template; None where nobody planned them."""
    request: dict[str, Any] | None = None
    """Further fields of its request, such as `tools` and `response_format`."""
    grader: str | None = None
    """What judges its answer, one of `GRADERS`; None: `answer`."""
    choice_order: tuple[int, ...] | None = None
    """Where its choices were shuffled: the place in its source of each choice that is asked."""
    at_s: float | None = None
    """Of a trace: when it is due, in seconds from the start of measuring."""
    turns: tuple[Turn, ...] = ()
    """All turns of a conversation, the first included; empty for a single question."""
    prefix_group: int | None = None
    """Which of the planned prefixes it begins with; None for none."""
    prefix_tokens: int | None = None
    """Tokens of that prefix."""

    def turn(self, number: int, answers: Sequence[str]) -> Prompt:
        """Turn `number` (from 1) of a conversation as a prompt of its own, after the answers to the turns before."""
        turn = self.turns[number - 1]
        return replace(
            self,
            prompt_id=turn_id(self.prompt_id, number),
            messages=tuple(messages_of(self.messages, self.turns[:number], answers[: number - 1])),
            max_tokens=turn.max_tokens or self.max_tokens,
            input_tokens=turn.input_tokens,
            turns=(),
        )

    @cached_property
    def sha256(self) -> str:
        """Hash of the messages, and of the request's fields if any, as canonical ASCII JSON: the same on every host."""
        return prompt_sha256([*self.messages, {"request": self.request}] if self.request else self.messages)

    @property
    def graded(self) -> bool:
        """Whether an answer can be judged: there is a gold, or JSON that a schema describes."""
        return self.gold is not None or (self.grader == "json" and schema_of(self.request) is not None)

    def to_row(self) -> dict[str, Any]:
        """The prompt as a row of a workload file. What comes before the first turn's question stays in `messages`."""
        optional = {
            "input_tokens": self.input_tokens,
            "request": self.request,
            "grader": self.grader,
            "choice_order": None if self.choice_order is None else list(self.choice_order),
            "at_s": self.at_s,
            "turns": [turn.to_row() for turn in self.turns] or None,
            "prefix_group": self.prefix_group,
            "prefix_tokens": self.prefix_tokens,
        }
        return {
            "prompt_id": self.prompt_id,
            "messages": list(self.messages[:-1] if self.turns else self.messages),
            "gold": self.gold,
            "task": self.task,
            "pool": self.pool,
            "max_tokens": self.max_tokens,
            **{name: value for name, value in optional.items() if value is not None},
        }


def turn_id(prompt_id: str, number: int) -> str:
    """The prompt_id of one turn of a conversation, in its records and wherever turns are told apart."""
    return f"{prompt_id}/{number}"


def asked_id(prompt_id: str, turn: int | None) -> str:
    """The prompt_id of the workload's row that a record belongs to."""
    return prompt_id if turn is None else prompt_id.removesuffix(f"/{turn}")


def read_prompts(path: Path) -> list[Prompt]:
    """Read a workload file, a user's own JSONL, or a ShareGPT file (`.json`), in file order; nothing is added.

    A row has `prompt` (a string), `messages`, or `turns` (a conversation; then `messages` come before it), and may have
    prompt_id, gold, task, pool, max_tokens, input_tokens (planned tokens of its text), request (further fields of the
    request), grader (what judges the answer), prefix_group and prefix_tokens.

    Raises:
        TaskError: the file can't be read, is empty, or a row can't be used; the message names file and line.
    """
    try:
        if not path.is_dir():
            require_regular(path)
        content = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise TaskError(f"{path}: no such prompts file") from None
    except OSError as error:
        raise TaskError(f"{path}: can't read the prompts: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: not UTF-8 (byte {error.start})") from None
    except ValueError as error:
        raise TaskError(f"{error}; save the prompts as a file first") from None
    prompts = []
    for number, text in _rows(path, content):
        try:
            prompts.append(_from_row(parse_json(text) if isinstance(text, str) else text, number))
        except ValueError as error:
            raise TaskError(f"{path}:{number}: {error}") from None
    if not any(prompt.pool == MEASURE for prompt in prompts):
        raise TaskError(f"{path}: holds no prompt to measure")
    seen: set[str] = set()
    for prompt in prompts:
        if prompt.prompt_id in seen:
            raise TaskError(f"{path}: two prompts have the prompt_id {prompt.prompt_id!r}")
        seen.add(prompt.prompt_id)
    return prompts


def _rows(path: Path, content: str) -> Iterable[tuple[int, str | dict[str, Any]]]:
    """The rows of a file with their numbers: lines, not parsed yet, or the entries of a ShareGPT file."""
    if path.suffix != ".json":
        return ((number, line) for number, line in enumerate(content.split("\n"), start=1) if line.strip())
    try:
        value = parse_json(content)
    except ValueError as error:
        raise TaskError(f"{path}: not JSON: {error}") from None
    return enumerate(sharegpt_rows(value, str(path)), start=1)


def to_lines(prompts: Iterable[Prompt]) -> str:
    """The text of a workload file."""
    return "".join(json.dumps(prompt.to_row(), separators=(",", ":")) + "\n" for prompt in prompts)


def write_prompts(path: Path, prompts: Iterable[Prompt]) -> None:
    """Write a workload file, whole or not at all."""
    with replacing(path) as out:
        out.write(to_lines(prompts))


def _from_row(row: Any, number: int) -> Prompt:
    """Check one row.

    Raises:
        ValueError: it can't be used; the message says why, without the place.
    """
    if not isinstance(row, dict):
        raise ValueError("a JSON object was expected")
    messages = row.get("messages")
    if messages is None and isinstance(row.get("prompt"), str):
        messages = [{"role": "user", "content": row["prompt"]}]
    if messages is None and ("question" in row or "problem" in row):
        raise ValueError("this is a row of a data set; its prompts come by the task's name (see `enginebench fetch`)")
    turns = turns_of_row(row["turns"]) if row.get("turns") is not None else ()
    if turns:
        before = [] if messages is None else messages
        messages = [*before, {"role": "user", "content": turns[0].user}] if isinstance(before, list) else None
        if row.get("gold") is not None:
            raise ValueError("`gold` goes with a single question; the answers of a conversation are not graded")
    if not isinstance(messages, list) or not messages:
        raise ValueError("neither `prompt` (a string), `messages` (a list) nor `turns` (a list) to ask")
    for message in messages:
        if not isinstance(message, dict) or not all(isinstance(message.get(key), str) for key in ("role", "content")):
            raise ValueError("each message needs `role` and `content`, both strings")
    if not messages[-1]["content"].strip():
        raise ValueError("the last message is empty")
    try:
        json.dumps([messages, row.get("turns")], ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("the text holds half a surrogate pair, which can't be sent as UTF-8") from None
    # Null means absent: exports of data frames write it for every missing value.
    row = {name: value for name, value in row.items() if value is not None}
    request, grader = _request(row.get("request")), row.get("grader")
    if grader is not None and grader not in GRADERS:
        raise ValueError(f"`grader` {grader!r}: there are {', '.join(GRADERS)}")
    gold = row.get("gold")
    if grader in ("json", "tools") and gold is not None and not isinstance(gold, str):
        gold = json.dumps(gold)
    if gold is not None and (isinstance(gold, bool) or not isinstance(gold, str | int | float)):
        raise ValueError("`gold` must be a string or a number (with the grader json or tools, any JSON)")
    pool = row.get("pool", MEASURE)
    if pool not in (MEASURE, WARMUP):
        raise ValueError(f"`pool` must be {MEASURE} or {WARMUP}, not {pool!r}")
    for name, least in (("max_tokens", 1), ("input_tokens", 1), ("prefix_tokens", 1), ("prefix_group", 0)):
        tokens = row.get(name)
        if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < least):
            raise ValueError(f"`{name}` must be a whole number of at least {least}")
    return Prompt(
        prompt_id=str(number if row.get("prompt_id") is None else row["prompt_id"]),
        messages=tuple(messages),
        gold=None if gold is None else str(gold),
        task=str(row.get("task", "jsonl")),
        pool=pool,
        max_tokens=row.get("max_tokens"),
        input_tokens=row.get("input_tokens"),
        request=request,
        grader=grader,
        choice_order=tuple(row["choice_order"]) if isinstance(row.get("choice_order"), list) else None,
        at_s=_due(row.get("at_s")),
        turns=turns,
        prefix_group=row.get("prefix_group"),
        prefix_tokens=row.get("prefix_tokens"),
    )


def _due(at_s: Any) -> float | None:
    if at_s is None:
        return None
    if isinstance(at_s, bool) or not isinstance(at_s, int | float) or not 0 <= at_s < 10**8:
        raise ValueError("`at_s` must be seconds from the start, 0 or more")
    return float(at_s)


def conversations_fit(prompts: Sequence[Prompt], requests: int, conversations: int, carry: str) -> bool:
    """Look at whether what is counted, and carried on, fits the prompts; returns whether they are conversations.

    Raises:
        ValueError: it does not; the message begins with the option's name.
    """
    held = [prompt for prompt in prompts if prompt.turns]
    if not any(prompt.pool == MEASURE for prompt in held):
        for name, given in (("conversations", conversations), ("carry", carry != FIXED)):
            if given:
                raise ValueError(f"{name}: the prompts are single questions; give conversations (rows with `turns`)")
        return False
    if requests:
        raise ValueError("requests: these prompts are conversations; count those instead (conversations)")
    for prompt in held if carry == FIXED else ():
        for number, turn in enumerate(prompt.turns[:-1], start=1):
            if turn.assistant is None:
                raise ValueError(
                    f"carry: turn {number} of {prompt.prompt_id} has no `assistant` to go on with: give each turn but"
                    " the last one, or say real (go on with the model's own answers)"
                )
    return True


def _request(fields: Any) -> dict[str, Any] | None:
    """Check the further fields of a request.

    Raises:
        ValueError: they are no object, or one is not the prompt's to set.
    """
    if fields is None:
        return None
    if not isinstance(fields, dict):
        raise ValueError('`request` must be an object, such as {"tools": [...]}')
    if reserved := sorted(RESERVED & fields.keys()):
        raise ValueError(f"`request` must not have {reserved[0]!r}: the cell, the engine or the load sets it")
    return fields


def schema_of(request: dict[str, Any] | None) -> dict[str, Any] | None:
    """The JSON Schema in a request's `response_format`, as OpenAI or as llama.cpp writes it; None without one."""
    wanted = (request or {}).get("response_format")
    if not isinstance(wanted, dict):
        return None
    inner = wanted.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, dict) else wanted.get("schema")
    return schema if isinstance(schema, dict) else None
