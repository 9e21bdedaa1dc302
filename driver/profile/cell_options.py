"""Checks a cell's `options` against the load's table of options, before any engine is started."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from load.options import OF_KIND, check, plain_parser

LOCUSTFILES = Path(__file__).resolve().parents[2] / "locustfiles"

Options = dict[str, str | int | float | bool]

OF_A_CELL = frozenset({"ca", "carry", "drain_timeout", "retries", "cancel_share", "cancel_after_tokens", *OF_KIND})
"""The options of a scenario that are not keys of a cell or of a profile."""

CAPACITY_KIND = "capacity"
"""The kind of load that searches a capacity: it runs as long as it needs, and is judged by objectives."""

DRAIN_TIMEOUT_S: float = plain_parser().get_default("drain_timeout")
"""Default drain timeout of a load, in seconds."""


def scenarios() -> list[str]:
    """The names of all scenarios: the files in locustfiles/ without a leading underscore."""
    return sorted(path.stem for path in LOCUSTFILES.glob("*.py") if not path.name.startswith("_"))


def flags(options: Mapping[str, Any]) -> list[str]:
    """The options as command-line arguments; a false switch is left out."""
    argv: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        argv += [flag] if value is True else [] if value is False else [flag, str(value)]
    return argv


def check_options(options: Options, scenario: str) -> None:
    """Check names and values of options, and that the scenario uses them.

    Raises:
        ValueError: one line with the mistake and the expected value.
    """
    for name in options:
        if name.replace("-", "_") not in OF_A_CELL:
            near = difflib.get_close_matches(name, OF_A_CELL, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(OF_A_CELL))}"
            raise ValueError(f"unknown option {name!r}; {meant}")
    kind = scenario_kind(scenario)
    # A cell's objectives come from the profile, which checks itself that there are any.
    objectives = {"objectives": "ttft_ms=1"} if kind == CAPACITY_KIND else {}
    check(plain_parser().parse_args(flags({**objectives, **options})), kind)


def scenario_kind(scenario: str) -> str:
    """The kind of load of a scenario: closed, open, sweep, ramp or capacity (`ChatUser.kind`)."""
    return str(declared(scenario).get("kind", "closed"))


def exact_users(scenario: str) -> int | None:
    """The fixed number of users of a scenario; None if a cell may choose it."""
    facts = declared(scenario)
    return int(facts.get("fixed_count", 1)) if facts.get("exact_count") else None


def declared(scenario: str) -> dict[str, Any]:
    """The class attributes of a scenario, such as `kind`. The file is parsed, because importing it imports Locust."""
    module = ast.parse((LOCUSTFILES / f"{scenario}.py").read_text(encoding="utf-8"))
    return {
        target.id: ast.literal_eval(statement.value)
        for node in module.body
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
