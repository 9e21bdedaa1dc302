"""Conversations as a user holds them: what may be asked of them, and the place of each request in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from load.options import UsageError
from workloads import Prompt
from workloads.prompts import conversations_fit


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a request in a conversation."""

    conversation: str
    """Of all conversations that are ever held, this one."""
    turn: int
    turns: int

    @property
    def is_last(self) -> bool:
        return self.turn == self.turns


def admitted(options: Any) -> int:
    """How many measured conversations, or single requests, are asked for; 0: no number."""
    return int(options.conversations or options.requests)


def check_conversations(options: Any, prompts: Sequence[Prompt]) -> bool:
    """Look at whether the options fit the prompts; returns whether conversations are asked.

    Raises:
        UsageError: they count what is not asked, or a fixed answer is missing.
    """
    try:
        return conversations_fit(prompts, options.requests, options.conversations, options.carry)
    except ValueError as error:
        raise UsageError(f"--{error}") from None
