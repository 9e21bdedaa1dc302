"""The options of `ab`, `bisect` and `bisect-step` that say how servers are loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from driver.ab import HOOKS, Asked, parse_answers
from driver.errors import BenchError, ExitCode
from driver.options import shared
from nightly.guard import parse_duration
from workloads.conversations import FIXED, REAL

BINARY_KINDS = ("llama_cpp", "xserv")
"""Kinds of engines that are one program, given by its path."""

F = TypeVar("F", bound=Callable[..., Any])


class _Rounds(click.ParamType):  # type: ignore[type-arg]
    """A whole number above 0, or `auto`."""

    name = "N|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        return "auto" if value == "auto" else int(click.IntRange(1).convert(value, param, ctx))


_OPTIONS = (
    click.option("--users", default="1,4,8", show_default=True, help="Requests in flight, a cell for each number."),
    click.option("--prompts", default="perf-short", show_default=True, help="Workload, or FILE.jsonl."),
    click.option("--input-tokens", type=click.IntRange(2), help="Synthetic prompts of so many tokens, not --prompts."),
    click.option(
        "--depth",
        help="Synthetic prompts behind so many tokens of context, a cell for each number: 0,4096,16384.",
    ),
    click.option("--turns", type=click.IntRange(2), help="Synthetic conversations of so many turns, not --prompts."),
    click.option("--conversations", metavar="FILE", help="Conversations: JSONL with turns, or ShareGPT's JSON."),
    click.option("--think", type=click.FloatRange(0), help="Seconds from an answer to the next turn. Default: 0."),
    click.option(
        "--carry",
        type=click.Choice([FIXED, REAL]),
        default=FIXED,
        show_default=True,
        help="What conversations go on with: fixed answers, the same for all engines, or the model's real ones.",
    ),
    click.option("--cache", is_flag=True, help="Let engines reuse prefixes. Default: cold prompts, else void."),
    click.option(
        "--output-tokens", type=click.IntRange(2), help="Tokens of each answer. Default: 64; 32 in little time."
    ),
    click.option(
        "--free-length", is_flag=True, help="Let answers end where the model ends, at most at --output-tokens."
    ),
    click.option("--answers", multiple=True, metavar="TASK[:N]", help="Grade answers too, such as arithmetic:24."),
    click.option(
        "--rounds",
        type=_Rounds(),
        default=3,
        show_default=True,
        help="Starts of each engine, in turn; auto stops as soon as all is decided, or --time is up.",
    ),
    click.option(
        "--time",
        "time_limit",
        default="10m",
        show_default=True,
        help="How long to measure: 90s, 3m, 1h; no round begins that cannot end by then.",
    ),
    click.option("--max-seq-len", type=click.IntRange(1), help="Tokens per slot. Default: what the prompts need."),
    click.option(
        "--slots", multiple=True, type=click.IntRange(1), help="Slots that servers must have; once, or for each."
    ),
    click.option(
        "--hook",
        "hooks",
        multiple=True,
        metavar="NAME=CMD",
        help="Run CMD as before_cell, after_cell, during_cell (in one more round, not compared) or on_regression.",
    ),
    click.option("--env", multiple=True, metavar="NAME=VALUE", help="Environment of every command; may be repeated."),
    shared.endpoint,
    shared.header,
    click.option("--model", help="What {model} in a command means: a path, or package:DIST/FILE."),
    click.option("--threads", type=click.IntRange(1), help="What {threads} in a command means."),
    click.option(
        "--engine",
        type=click.Choice(BINARY_KINDS),
        help="Servers are programs of this kind, with more of its words; its other words come from the options.",
    ),
    click.option("--ready-timeout", help="How long the start of a command may take, such as 30s.  [default: 10m]"),
)


def load_options(function: F) -> F:
    """Add the options to a command, which gets them as keywords for `asked`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def asked(sides: tuple[str, ...], names: tuple[str, ...], load: dict[str, Any]) -> Asked:
    """The request that the options make.

    Raises:
        BenchError: a value cannot be used (exit code 2).
    """
    return Asked(
        sides=sides,
        names=names,
        users=_numbers("--users", load["users"], least=1),
        prompts=load["prompts"],
        input_tokens=load["input_tokens"],
        depths=_numbers("--depth", load["depth"], least=0) if load["depth"] else (),
        turns=load["turns"],
        conversations=load["conversations"],
        think_s=load["think"],
        carry=load["carry"],
        cache=load["cache"],
        output_tokens=load["output_tokens"],
        fixed_length=not load["free_length"],
        answers=tuple(map(parse_answers, load["answers"])),
        rounds=load["rounds"],
        time_s=_seconds("--time", load["time_limit"]),
        max_seq_len=load["max_seq_len"],
        slots=load["slots"],
        env=dict(map(_assignment, load["env"])),
        endpoint=load["endpoint"],
        headers=shared.headers_of(load["header"]),
        hooks=dict(map(_hook, load["hooks"])),
        model=load["model"],
        threads=load["threads"],
        engine=load["engine"],
        ready_timeout_s=_seconds("--ready-timeout", load["ready_timeout"]) if load["ready_timeout"] else None,
    )


def _seconds(option: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BenchError(f"{option}: {error}", ExitCode.USAGE) from None


def _numbers(option: str, text: str, *, least: int) -> tuple[int, ...]:
    try:
        numbers = tuple(dict.fromkeys(int(number) for number in text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < least:
        raise BenchError(
            f"{option} {text}: expected whole numbers from {least} up with commas, such as 1,4,8", ExitCode.USAGE
        )
    return numbers


def _hook(text: str) -> tuple[str, str]:
    name, equals, command = text.partition("=")
    if name not in HOOKS or not equals or not command.strip():
        raise BenchError(f"--hook {text}: expected NAME=CMD, NAME one of {', '.join(HOOKS)}", ExitCode.USAGE)
    return name, command


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BenchError(f"--env {name}: expected NAME=VALUE", ExitCode.USAGE)
    return name, value
