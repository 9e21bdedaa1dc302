"""What a cell's `options` may hold: checked by the load's own table of options before any engine is started."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from load.options import OF_KIND, check, plain_parser

LOCUSTFILES = Path(__file__).resolve().parents[2] / "locustfiles"

Options = dict[str, str | int | float | bool]

OF_A_CELL = frozenset({"ca", "drain_timeout", "retries", "cancel_share", "cancel_after_tokens", *OF_KIND})
"""The options of a scenario that are not keys of the cell, or of the run, themselves."""

CAPACITY_KIND = "capacity"
"""The kind of load that searches a capacity: it measures for as long as it needs, and is judged by objectives."""

DRAIN_TIMEOUT_S: float = plain_parser().get_default("drain_timeout")
"""How long a load drains where its cell does not say."""


def scenarios() -> list[str]:
    """The names that a cell may use: the files in locustfiles/ without a leading underscore."""
    return sorted(path.stem for path in LOCUSTFILES.glob("*.py") if not path.name.startswith("_"))


def flags(options: Mapping[str, Any]) -> list[str]:
    """The options as arguments of a command line; false leaves a switch out."""
    argv: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        argv += [flag] if value is True else [] if value is False else [flag, str(value)]
    return argv


def check_options(options: Options, scenario: str) -> None:
    """Look at names and values, and whether the scenario has a use for them.

    Raises:
        ValueError: in one line, what is wrong and what was expected.
    """
    for name in options:
        if name.replace("-", "_") not in OF_A_CELL:
            near = difflib.get_close_matches(name, OF_A_CELL, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(OF_A_CELL))}"
            raise ValueError(f"unknown option {name!r}; {meant}")
    kind = scenario_kind(scenario)
    # A cell's objectives are the profile's, which looks itself whether there are any.
    objectives = {"objectives": "ttft_ms=1"} if kind == CAPACITY_KIND else {}
    check(plain_parser().parse_args(flags({**objectives, **options})), kind)


def scenario_kind(scenario: str) -> str:
    """The kind of load of a scenario: closed, open, sweep, ramp or capacity (`ChatUser.kind`)."""
    return str(declared(scenario).get("kind", "closed"))


def exact_users(scenario: str) -> int | None:
    """How many users a scenario always has; None where a cell may say."""
    facts = declared(scenario)
    return int(facts.get("fixed_count", 1)) if facts.get("exact_count") else None


def declared(scenario: str) -> dict[str, Any]:
    """The class attributes that a scenario declares, such as `kind`. Parsed, for importing it would import Locust."""
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
