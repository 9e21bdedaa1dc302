"""What a cell's `options` may hold: checked by the load's own table of options before any engine is started."""

from __future__ import annotations

import argparse
import difflib
from typing import Any, NoReturn

from locustfiles._options import add_options, check

Options = dict[str, str | int | float | bool]

OF_A_CELL = frozenset({"drain_timeout", "retries", "rate", "arrivals", "burstiness"}) | frozenset(
    {"steps", "step_by", "stop_at_saturation", "ramp"}
)
"""The options of a scenario that are not keys of the cell, or of the run, themselves."""


class _Parser(argparse.ArgumentParser):
    """Locust's, as far as the load's options need it; importing Locust's own would patch this process."""

    def add_argument(self, *flags: Any, include_in_web_ui: bool = True, **given: Any) -> argparse.Action:
        return super().add_argument(*flags, **given)

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def flags(options: Options) -> list[str]:
    """The options as arguments of a command line; false leaves a switch out."""
    argv: list[str] = []
    for name, value in options.items():
        flag = f"--{name.replace('_', '-')}"
        argv += [flag] if value is True else [] if value is False else [flag, str(value)]
    return argv


def check_options(options: Options) -> None:
    """Look at names and values.

    Raises:
        ValueError: in one line, what is wrong and what was expected.
    """
    for name in options:
        if name.replace("-", "_") not in OF_A_CELL:
            near = difflib.get_close_matches(name, OF_A_CELL, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(OF_A_CELL))}"
            raise ValueError(f"unknown option {name!r}; {meant}")
    parser = _Parser(add_help=False, allow_abbrev=False)
    add_options(parser)
    check(parser.parse_args(flags(options)))
