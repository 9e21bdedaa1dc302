"""Reads one delta of a choice: answer, thoughts, refusal and tool calls, under all names that servers use.

This module alone decides which fields are thoughts. The load and the probe both use it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from load.chat.tool_calls import Fragment

THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking", "reasoning_details", "thinking_blocks")
"""Fields with thoughts. Gateways may repeat a thought under several names: the first field that is not empty counts."""
_THOUGHT_PARTS = frozenset({"thinking", "reasoning", "reasoning_text", "thought"})
_TEXT_KEYS = ("text", "content", "thinking", "reasoning", "summary", "refusal")
_KNOWN = frozenset({"role", "content", "refusal", "tool_calls", "function_call", *THOUGHT_FIELDS})
_MAX_DEPTH = 8


@dataclass(slots=True)
class Delta:
    """The text of one delta by its kind; `calls` are fragments of tool calls."""

    content: str = ""
    thought: str = ""
    refusal: str = ""
    calls: list[Fragment] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Names of unknown fields with text."""

    @property
    def characters(self) -> int:
        texts = len(self.content) + len(self.thought) + len(self.refusal)
        return texts + sum(len(call.name) + len(call.arguments) for call in self.calls)


def read_delta(delta: Mapping[str, Any]) -> Delta:
    """Read a delta. Values of an unexpected type are ignored; it never raises."""
    result = Delta()
    content = delta.get("content")
    if isinstance(content, str):
        result.content = content
    elif isinstance(content, list):
        _read_parts(content, result)
    result.thought = next((text for name in THOUGHT_FIELDS if (text := text_of(delta.get(name)))), result.thought)
    result.refusal = text_of(delta.get("refusal")) or result.refusal
    calls = delta.get("tool_calls")
    # Text Generation Inference sent one object in place of the list.
    for place, call in enumerate(calls if isinstance(calls, list) else [calls]):
        if isinstance(call, dict):
            index, name = call.get("index"), call.get("id")
            place = index if isinstance(index, int) else place
            _read_call(call.get("function"), place, name if isinstance(name, str) else "", result)
    _read_call(delta.get("function_call"), 0, "", result)
    result.unknown = [name for name, value in delta.items() if name not in _KNOWN and text_of(value)]
    return result


def _read_parts(parts: list[Any], result: Delta) -> None:
    """Read content that is a list of typed parts."""
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind in _THOUGHT_PARTS:
            result.thought += text_of(part)
        elif kind == "refusal":
            result.refusal += text_of(part)
        else:
            result.content += text_of(part)


def _read_call(function: Any, index: int, call_id: str, result: Delta) -> None:
    if not isinstance(function, dict):
        return
    name, arguments = function.get("name"), function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    name = name if isinstance(name, str) else ""
    if name or arguments:
        result.calls.append(Fragment(index, name, arguments or "", call_id))


def text_of(value: Any, depth: int = 0) -> str:
    """The text of a string, of an object with a text field, or of a list of those; empty for anything else."""
    if isinstance(value, str):
        return value
    if depth >= _MAX_DEPTH:
        return ""
    if isinstance(value, list):
        return "".join(text_of(item, depth + 1) for item in value)
    if isinstance(value, dict):
        return next((text for key in _TEXT_KEYS if (text := text_of(value.get(key), depth + 1))), "")
    return ""
