"""Tool calls judged: the right functions with the right arguments, in any order. Pure; policies in docs/answers.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scoring.answers.extract import Fault, Grade, Method
from scoring.answers.structured import SHOWN, NotJsonError, meets, read_json, same, shown


@dataclass(frozen=True, slots=True)
class Call:
    """A call with its arguments parsed, and those filled in that it leaves to the schema's defaults."""

    name: str
    arguments: Mapping[str, Any]


def grade_tools(
    calls: Sequence[Mapping[str, Any]], text: str, gold: str, request: Mapping[str, Any], finish_reason: str | None
) -> Grade:
    """Judge the calls of an answer.

    Args:
        calls: {"name": str, "arguments": JSON text} as streamed.
        text: what the model wrote beside them.
        gold: JSON text of a list of {"name": str, "arguments": object}; an empty list: no call, but words.
        request: the request's fields, whose `tools` hold the parameters of each function.
        finish_reason: as told by the engine; a cut answer is never right.
    """
    cut = finish_reason == "length"
    said = "; ".join(f"{call['name']}({call['arguments']})" for call in calls)[:SHOWN] or None
    method = Method.TOOL_CALLS if calls else Method.TEXT if text.strip() else Method.NONE
    wanted = [Call(call["name"], call["arguments"]) for call in json.loads(gold)]
    parameters = parameters_of(request)
    fault, made = _read(calls, parameters)
    if fault is None:
        fault = _compare(made, [_filled(call, parameters) for call in wanted], exact=False)
    correct = fault is None and not cut
    strict = correct and _compare(made, [_filled(call, parameters) for call in wanted], exact=True) is None
    return Grade(correct, strict, said or (text.strip()[:SHOWN] or None), method, cut and not correct, fault)


def parameters_of(request: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The parameters' schema of each function that a request offers, by its name."""
    functions = [tool.get("function") or {} for tool in request.get("tools") or () if isinstance(tool, dict)]
    return {str(one["name"]): one.get("parameters") or {} for one in functions if "name" in one}


def _read(
    calls: Sequence[Mapping[str, Any]], parameters: Mapping[str, dict[str, Any]]
) -> tuple[Fault | None, list[Call]]:
    """Parse the calls; returns the first thing that makes one of them unusable."""
    made = []
    for call in calls:
        name, written = str(call["name"]), str(call["arguments"])
        if name not in parameters:
            return Fault.FUNCTION, []
        try:
            # A function without parameters is called with no text at all by some servers.
            arguments = read_json(written) if written.strip() else {}
        except NotJsonError:
            return Fault.NOT_JSON, []
        if not isinstance(arguments, dict) or not meets(parameters[name], arguments):
            return Fault.SCHEMA, []
        made.append(_filled(Call(name, arguments), parameters))
    return None, made


def _filled(call: Call, parameters: Mapping[str, dict[str, Any]]) -> Call:
    properties = parameters.get(call.name, {}).get("properties") or {}
    defaults = {name: one["default"] for name, one in properties.items() if isinstance(one, dict) and "default" in one}
    return Call(call.name, {**defaults, **call.arguments})


def _compare(made: Sequence[Call], wanted: Sequence[Call], *, exact: bool) -> Fault | None:
    if sorted(call.name for call in made) != sorted(call.name for call in wanted):
        return Fault.FUNCTION
    left = list(wanted)
    for call in made:
        match = next(
            (one for one in left if one.name == call.name and same(one.arguments, call.arguments, exact=exact)), None
        )
        if match is None:
            return Fault.VALUES
        left.remove(match)
    return None


def check_gold(gold: str, request: Mapping[str, Any]) -> None:
    """Look at whether a gold is a list of calls that the request's tools allow.

    Raises:
        ValueError: in one line, what is wrong.
    """
    parameters = parameters_of(request)
    value = json.loads(gold)
    if not isinstance(value, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) and isinstance(one.get("arguments"), dict)
        for one in value
    ):
        raise ValueError('the gold of `tools` is a list of {"name": ..., "arguments": {...}}')
    for one in value:
        if one["name"] not in parameters:
            raise ValueError(f"the gold calls {one['name']!r}, which `request.tools` does not offer")
        if not meets(parameters[one["name"]], one["arguments"]):
            raise ValueError(f"the gold's arguments break the parameters of {one['name']!r}: {shown(one['arguments'])}")
