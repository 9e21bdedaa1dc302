"""Joins the fragments of tool calls, even if a server gives several calls the same index. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Fragment:
    """One delta's part of a call. A server sends the name, and mostly the id, only with the first fragment."""

    index: int
    name: str
    arguments: str
    id: str = ""


@dataclass(slots=True)
class _Call:
    index: int
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def goes_on_with(self, fragment: Fragment) -> bool:
        """Whether a fragment of the same index belongs to this call and not to the next one.

        The API numbers the calls of an answer. Ollama (up to 0.20), older vLLM and SGLang, and NVIDIA Dynamo gave
        all of them the index 0, each with its own id and name; before 0.4.7 Ollama sent no index at all.
        """
        if not (fragment.name and self.name):
            return True
        if fragment.id and self.id:
            return fragment.id == self.id
        return not _is_json("".join(self.arguments))


@dataclass(slots=True)
class ToolCalls:
    """The calls of one answer, in the order in which they began."""

    _calls: list[_Call] = field(default_factory=list)

    def take(self, fragment: Fragment) -> None:
        """Add a fragment to its call, or begin the next call with it."""
        call = next((call for call in reversed(self._calls) if call.index == fragment.index), None)
        if call is None or not call.goes_on_with(fragment):
            call = _Call(fragment.index, fragment.id)
            self._calls.append(call)
        call.id = call.id or fragment.id
        # Gateways repeat the whole name with each fragment of the arguments, some also with an empty last one.
        if not (fragment.name == call.name and (fragment.arguments or call.arguments)):
            call.name += fragment.name
        call.arguments.append(fragment.arguments)

    def whole(self) -> list[dict[str, str]]:
        """{"name": str, "arguments": str} of each call; by index, then in order of arrival."""
        calls = sorted(self._calls, key=lambda call: call.index)
        return [{"name": call.name, "arguments": "".join(call.arguments)} for call in calls]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
