"""The turns of a conversation, and where they come from: `turns` in a row of our JSONL, or a ShareGPT file.

A conversation is a prompt with turns. Each turn is one request: it carries all that was said before, so that its prefix
is one that the engine has seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workloads.problem_sets import TaskError

FIXED, REAL = "fixed", "real"
"""What a conversation goes on with: the answers of its file, or the model's own."""
LONGEST_THINK_S = 3600.0
"""A longer think time is taken for a mistake in the unit."""

_HUMAN = frozenset({"human", "user"})
_MODEL = frozenset({"gpt", "chatgpt", "assistant", "bing", "bard", "model"})
"""How ShareGPT files call the two sides."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One question of a conversation, and the fixed answer that the conversation may go on with."""

    user: str
    assistant: str | None = None
    """None where only the model's own answer can be carried on."""
    think_s: float = 0.0
    """Seconds from the end of the answer before until this turn is sent."""
    max_tokens: int | None = None
    input_tokens: int | None = None
    """Planned tokens of all text that this turn sends, without a chat template; None where nobody planned them."""

    def to_row(self) -> dict[str, Any]:
        """The turn as a workload file has it; what does not apply is left out."""
        optional = {"assistant": self.assistant, "max_tokens": self.max_tokens, "input_tokens": self.input_tokens}
        return {
            "user": self.user,
            **{name: value for name, value in optional.items() if value is not None},
            **({"think_s": self.think_s} if self.think_s else {}),
        }


def messages_of(
    opening: Sequence[dict[str, str]], turns: Sequence[Turn], answers: Sequence[str]
) -> list[dict[str, str]]:
    """What the turn after these answers sends: `opening` (up to the first question), answers and questions in turn."""
    messages = list(opening)
    for answer, turn in zip(answers, turns[1:], strict=False):
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": turn.user}]
    return messages


def turns_of_row(value: Any) -> tuple[Turn, ...]:
    """The turns of a row: a list of objects with `user`, or of plain strings.

    Raises:
        ValueError: it is no such list; the message says why, without the place.
    """
    if not isinstance(value, list) or not value:
        raise ValueError("`turns` must be a list with at least one turn")
    return tuple(_turn(turn, number) for number, turn in enumerate(value, start=1))


def _turn(value: Any, number: int) -> Turn:
    if isinstance(value, str):
        value = {"user": value}
    if not isinstance(value, dict) or not isinstance(value.get("user"), str) or not value["user"].strip():
        raise ValueError(f"turn {number} needs `user`, a text that is not empty")
    value = {name: item for name, item in value.items() if item is not None}
    if not isinstance(value.get("assistant", ""), str):
        raise ValueError(f"turn {number}: `assistant` must be a text")
    think_s = value.get("think_s", 0.0)
    if isinstance(think_s, bool) or not isinstance(think_s, int | float) or not 0 <= think_s <= LONGEST_THINK_S:
        raise ValueError(f"turn {number}: `think_s` must be seconds from 0 to {LONGEST_THINK_S:g}")
    for name in ("max_tokens", "input_tokens"):
        tokens = value.get(name, 1)
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
            raise ValueError(f"turn {number}: `{name}` must be a whole number of at least 1")
    return Turn(
        value["user"], value.get("assistant"), float(think_s), value.get("max_tokens"), value.get("input_tokens")
    )


def sharegpt_rows(value: Any, name: str) -> list[dict[str, Any]]:
    """A ShareGPT file as rows of ours: `[{"id": ..., "conversations": [{"from": "human", "value": ...}, ...]}]`.

    A conversation is taken as far as human and model speak in turn, beginning with the human; one without a question is
    left out, as such files have many.

    Raises:
        TaskError: it is no such file, or holds no conversation.
    """
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise TaskError(f"{name}: a ShareGPT file is a JSON list of objects with `conversations`; ours is .jsonl")
    rows: list[dict[str, Any]] = []
    for number, entry in enumerate(value, start=1):
        said = entry.get("conversations")
        if not isinstance(said, list):
            raise TaskError(f"{name}: entry {number} has no list `conversations`")
        if row := _sharegpt_row(said):
            # Ids of parts of one conversation repeat in some copies.
            rows.append({"prompt_id": f"{number}-{entry['id']}" if entry.get("id") else str(number), **row})
    if not rows:
        raise TaskError(f"{name}: holds no conversation that a human begins")
    return rows


def _sharegpt_row(said: list[Any]) -> dict[str, Any] | None:
    opening: list[dict[str, str]] = []
    turns: list[dict[str, Any]] = []
    for message in said:
        who, text = (
            (str(message.get(key) or "") for key in ("from", "value")) if isinstance(message, dict) else ("", "")
        )
        if who == "system" and not turns and not opening:
            opening = [{"role": "system", "content": text}]
        elif who in _HUMAN and text.strip() and (not turns or "assistant" in turns[-1]):
            turns.append({"user": text})
        elif who in _MODEL and turns and "assistant" not in turns[-1]:
            turns[-1]["assistant"] = text
        else:
            break
    return {"messages": opening, "turns": turns} if turns else None


def drawn_seconds(gauss: float, mean: float, sd: float) -> float:
    """A think time from a standard normal number: log-normal with that mean and deviation, as people's pauses are."""
    if not sd or not mean:
        return mean
    variance = math.log1p((sd / mean) ** 2)
    return round(math.exp(math.log(mean) - variance / 2 + math.sqrt(variance) * gauss), 3)
