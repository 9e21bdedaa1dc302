"""Formats a profile's mistakes: file, key, the given and the expected value."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from driver.profile.model import Profile
from driver.profile.sections import Cell, EngineSection, Gate, Objectives, Sampling, Verdict, WorkloadSection

_SECTIONS: dict[str, type[BaseModel]] = {
    "engines": EngineSection,
    "cells": Cell,
    "workloads": WorkloadSection,
    "sampling": Sampling,
    "objectives": Objectives,
    "gate": Gate,
    "verdict": Verdict,
}

_PATTERNS = {
    "name": "letters, digits, '.', '_' and '-', beginning with a letter or digit, at most 64",
    "cores": "cores such as 0 or 0,2-3",
    "[key]": "a variable's name: letters, digits and '_'",
}

_EXPECTED: dict[str, Callable[[dict[str, Any]], str]] = {
    "greater_than": lambda limit: f"more than {limit['gt']:g}",
    "greater_than_equal": lambda limit: f"at least {limit['ge']:g}",
    "less_than": lambda limit: f"less than {limit['lt']:g}",
    "less_than_equal": lambda limit: f"at most {limit['le']:g}",
    "int_type": lambda _: "a whole number",
    "int_from_float": lambda _: "a whole number",
    "float_type": lambda _: "a number",
    "float_parsing": lambda _: "a number",
    "finite_number": lambda _: "a finite number",
    "bool_type": lambda _: "true or false",
    "string_type": lambda _: "text in quotes",
    "string_too_short": lambda _: "a name",
    "tuple_type": lambda _: "a list",
    "dict_type": lambda _: "a table",
    "model_type": lambda _: "a table",
    "literal_error": lambda known: str(known["expected"]),
    "too_short": lambda _: "at least one",
}


def lines(source: str, error: ValidationError) -> Iterator[str]:
    """One line for each mistake."""
    mistakes = error.errors()
    # pydantic also reports a list whose items all failed as too short: a second line for the same mistake.
    places = [item["loc"] for item in mistakes]
    for item in mistakes:
        if item["type"] != "too_short" or not any(p[:1] == item["loc"] and len(p) > 1 for p in places):
            yield _one_line(source, item)


def _one_line(source: str, error: Any) -> str:
    place = ""
    for part in error["loc"]:
        if part != "[key]":
            place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    where = f"{source}: {place}: " if place else f"{source}: "
    kind, last = error["type"], str(error["loc"][-1]) if error["loc"] else ""
    if kind == "extra_forbidden":
        return where + "unknown key" + _did_you_mean(error["loc"])
    if kind == "missing":
        return where + "missing; the profile needs it"
    if kind == "string_pattern_mismatch":
        return where + _given(error) + f"expected {_PATTERNS.get(last, 'another form')}"
    if kind == "tuple_type" and isinstance(error["input"], dict):
        return where + f"one table was given; expected a list: write [[{last}]]"
    if kind in _EXPECTED:
        return where + _given(error) + f"expected {_EXPECTED[kind](error.get('ctx', {}))}"
    message = " ".join(str(error["msg"]).removeprefix("Value error, ").split())
    return where + (message if message[0] in "`\"'" else message[0].lower() + message[1:])


def _given(error: Any) -> str:
    """The given value, unless it may be a secret or is long."""
    given = repr(error["input"])
    given = {"True": "true", "False": "false"}.get(given, given)
    return "" if "env" in error["loc"][:-1] or len(given) > 60 else f"{given} was given; "


def _did_you_mean(loc: tuple[int | str, ...]) -> str:
    section: Any = Profile
    for part in loc[:-1]:
        if isinstance(part, str):
            section = _SECTIONS.get(part, section)
    close = difflib.get_close_matches(str(loc[-1]), list(section.model_fields), n=1)
    return f' (did you mean "{close[0]}"?)' if close else f"; known are {', '.join(section.model_fields)}"
