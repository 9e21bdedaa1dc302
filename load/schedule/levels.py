"""The options of a capacity search: defines and checks them, and makes the plan of the search."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from load.schedule.search import MOST_REQUESTS, Plan
from records.objectives import parse_objectives

OPTIONS = (
    *("start", "step", "end", "objectives", "pass_share", "confidence", "level_cap", "settle", "time_limit"),
    "no_recheck",
)
"""The options that only a capacity search uses."""

SETTLE_RATE_S = 30.0
"""Default `--settle` for rates in seconds: a level by schedule begins with an empty queue, which passes too easily."""


def add_options(add: Callable[..., Any]) -> None:
    """Add the options to a parser by its `add_argument`."""
    add("--start", type=float, default=1.0, help="capacity: first level")
    add(
        "--step",
        type=float,
        default=1.0,
        help="capacity: distance between levels, which is the precision of the result",
    )
    add("--end", type=float, default=64.0, help="capacity: highest level to try")
    add(
        "--objectives",
        default="",
        metavar="NAME=MS,...",
        help="capacity: limits in ms that a request must meet, such as ttft_ms=500,tpot_ms=50,e2e_ms=9000",
    )
    add(
        "--pass-share", type=float, default=0.95, help="capacity: least share of requests that must meet all objectives"
    )
    add("--confidence", type=float, default=0.95, help="capacity: confidence of the verdict on each level")
    add(
        "--level-cap",
        type=int,
        default=MOST_REQUESTS,
        help="capacity: most requests per level; a level not decided by then stays undecided",
    )
    add(
        "--settle",
        type=float,
        default=-1.0,
        help="capacity: seconds at the start of each level whose requests do not count; -1: 0 for users, 30 for rates",
    )
    add("--time-limit", type=float, default=0.0, help="capacity: seconds after which the search ends; 0: no limit")
    add(
        "--no-recheck",
        action="store_true",
        default=False,
        help="capacity: do not measure the passing level once more after a level that failed",
    )


def settle_s(options: Any) -> float:
    """Seconds at the start of each level whose requests do not count, since a queue reaches its usual length slowly."""
    if options.settle >= 0:
        return float(options.settle)
    return SETTLE_RATE_S if options.step_by == "rate" else 0.0


def objectives(options: Any) -> dict[str, float]:
    """The limits in ms that a request must meet in a capacity search.

    Raises:
        ValueError: the text is invalid, or has no limit.
    """
    try:
        limits = parse_objectives(options.objectives)
    except ValueError as error:
        raise ValueError(f"--objectives {error}") from None
    if not limits:
        raise ValueError(
            "--objectives: a capacity needs at least one, such as ttft_ms=500 (in a profile: [objectives])"
        )
    return limits


def check(options: Any) -> None:
    """Check the options beyond argparse's checks.

    Raises:
        ValueError: the message names the option and the expected value.
    """
    objectives(options)
    for name in ("requests", "duration"):
        if getattr(options, name):
            raise ValueError(f"--{name}: a capacity search measures each level for as long as it needs; leave it out")
    if not 0 < options.start <= options.end < math.inf:
        raise ValueError(f"--start {options.start:g} --end {options.end:g}: 0 < start <= end was expected")
    if not 0 < options.step < math.inf or (options.end - options.start) / options.step > 100_000:
        raise ValueError(f"--step {options.step:g}: a distance above 0 that makes at most 100,000 levels was expected")
    if options.step_by == "users" and any(value % 1 for value in (options.start, options.step, options.end)):
        raise ValueError("--start, --step, --end: whole numbers of users were expected")
    for name in ("pass_share", "confidence"):
        if not 0 < getattr(options, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} {getattr(options, name):g}: between 0 and 1 was expected")
    for name, least in (("level_cap", 1), ("settle", -1), ("time_limit", 0)):
        if not least <= getattr(options, name) < math.inf:
            raise ValueError(f"--{name.replace('_', '-')} {getattr(options, name):g}: at least {least} was expected")


def plan(options: Any) -> Plan:
    """The plan of the search."""
    return Plan(
        start=float(options.start),
        step=float(options.step),
        end=float(options.end),
        share=options.pass_share,
        confidence=options.confidence,
        most_requests=options.level_cap,
        from_above=not options.no_recheck,
    )
