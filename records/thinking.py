"""Decides whether an answer holds thoughts: the one rule for the probe and the audit."""

from __future__ import annotations

TAGS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis", "<|channel|>final"),
)
"""The tags of thoughts inside the text itself: Qwen and DeepSeek, Magistral, others, Seed, Kimi, gpt-oss."""


def holds_thought(text: str, reasoning: str) -> bool:
    """Whether thoughts were streamed as such, or the text begins with a think block that holds something.

    An empty block is how some templates turn thinking off. Other templates open the block themselves, so that only its
    end is in the answer.
    """
    return bool(reasoning.strip()) or any(_in_tags(text, start, end) for start, end in TAGS)


def _in_tags(text: str, start: str, end: str) -> bool:
    before, tag, rest = text.partition(start)
    if not tag:
        thought, closed, _ = text.partition(end)
        return bool(closed and thought.strip())
    return bool(rest.partition(end)[0].strip()) and not before.strip()
