"""Reads token counts and server timings of a chat stream. Values that a record cannot store are dropped with a note."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

MAX_COUNT = 2**31 - 1
"""Larger numbers are no token counts."""
_MAX_INT = 2**63 - 1
_MAX_DEPTH = 8
_MAX_VALUES = 512


def count_of(value: Any) -> int | None:
    """A token count: an integer from 0 to `MAX_COUNT`, also if written as 8.0; None for anything else."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
        return value
    return None


def merge_usage(known: dict[str, Any] | None, usage: dict[str, Any]) -> dict[str, Any]:
    """Merge the usage of a later event. A null, a zero or an empty object never replaces a real value."""
    if not known:
        return dict(usage)
    return known | {name: value for name, value in usage.items() if value or name not in known}


def detail(usage: Mapping[str, Any], group: str, name: str) -> int | None:
    """A count from one of the usage's groups of details."""
    details = usage.get(group)
    return count_of(details.get(name)) if isinstance(details, dict) else None


def notes_on(usage: Mapping[str, Any]) -> list[str]:
    """One sentence per invalid count of the usage."""
    names = ("prompt_tokens", "completion_tokens")
    bad = [name for name in names if usage.get(name) is not None and count_of(usage[name]) is None]
    return [f"usage.{name} is no token count and was dropped: {str(usage[name])[:40]}" for name in bad]


def storable(value: Any, where: str, notes: list[str]) -> Any:
    """A JSON value without parts that a record cannot store: numbers over 64 bits, infinities, deep nesting, bulk."""
    budget = [_MAX_VALUES]

    def clean(item: Any, path: str, depth: int) -> Any:
        budget[0] -= 1
        if budget[0] < 0 or depth > _MAX_DEPTH:
            problem = "too much data"
        elif isinstance(item, dict):
            return {str(key)[:100]: clean(inner, f"{path}.{str(key)[:40]}", depth + 1) for key, inner in item.items()}
        elif isinstance(item, list):
            return [clean(inner, path, depth + 1) for inner in item]
        elif isinstance(item, int) and abs(item) > _MAX_INT:
            problem = "a number of more than 64 bits"
        elif isinstance(item, float) and not math.isfinite(item):
            problem = "not a finite number"
        else:
            return item[:2000] if isinstance(item, str) else item
        note = f"{path} was dropped: {problem}"
        if note not in notes and len(notes) < 20:
            notes.append(note)
        return None

    return clean(value, where, 0)
