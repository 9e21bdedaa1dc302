"""How servers stream tool calls, legacy function calls and refusals: the delta of the first token, and of each further.

A dialect is a pair of functions of the fragment's text. In the first five the first token is the function's name and
every further one a fragment of its arguments, which never become whole JSON. Ollama sends each call whole, all of them
with the index 0. A text is in every delta, in the call's id where there is no other place: it holds the send's stamp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Delta = dict[str, Any]
Dialect = tuple[Callable[[str], Delta], Callable[[str], Delta]]

NAME = "say"


def _id(text: str) -> str:
    return "call_" + text.strip().partition(" ")[0]


def _calls(**call: Any) -> Delta:
    return {"tool_calls": [call]}


DIALECTS: dict[str, Dialect] = {
    "tools_openai": (
        lambda text: {
            "role": "assistant",
            "content": None,
            **_calls(index=0, id=_id(text), type="function", function={"name": NAME, "arguments": ""}),
            "refusal": None,
        },
        lambda text: _calls(index=0, function={"arguments": text}),
    ),
    "tools_llama_cpp": (
        lambda text: _calls(index=0, id=_id(text), type="function", function={"name": NAME, "arguments": "{"}),
        lambda text: _calls(index=0, function={"arguments": text}),
    ),
    "tools_vllm": (
        lambda text: _calls(id=_id(text), type="function", index=0, function={"name": NAME}),
        lambda text: _calls(index=0, function={"arguments": text}),
    ),
    "tools_sglang": (
        lambda text: {
            "role": None,
            "content": None,
            "reasoning_content": None,
            **_calls(id=_id(text), index=0, type="function", function={"name": NAME, "arguments": ""}),
        },
        lambda text: {
            "role": None,
            "content": None,
            "reasoning_content": None,
            **_calls(id=None, index=0, type="function", function={"name": None, "arguments": text}),
        },
    ),
    "tools_tgi": (
        lambda text: {"tool_calls": {"index": 0, "id": _id(text), "type": "function", "function": {"name": NAME}}},
        lambda text: {"tool_calls": {"index": 0, "id": "", "function": {"name": None, "arguments": text}}},
    ),
    "tools_ollama": (
        lambda text: _whole_call(text),
        lambda text: _whole_call(text),
    ),
    "function_call": (
        lambda text: {"function_call": {"name": NAME, "arguments": text}},
        lambda text: {"function_call": {"arguments": text}},
    ),
    "refusal": (lambda text: {"refusal": text}, lambda text: {"refusal": text}),
}


def _whole_call(text: str) -> Delta:
    arguments = '{"text":"' + text + '"}'
    return {"role": "assistant", "content": "", **_calls(index=0, function={"name": NAME, "arguments": arguments})}


def finish_reason(dialect: str) -> str:
    """How an answer in a dialect ends."""
    return {"refusal": "stop", "function_call": "function_call"}.get(dialect, "tool_calls")
