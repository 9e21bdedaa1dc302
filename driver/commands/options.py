"""`options [SCENARIO]`: the options of a scenario, which `locust --help` does not show; and docs/options.md."""

from __future__ import annotations

import argparse
import shutil
import textwrap

import click

from driver.profile.cell_options import OF_A_CELL, scenario_kind, scenarios
from load.options import OF_KIND, plain_parser

LOCUSTS_OWN = {
    "-f FILE": "The scenario's file: locustfiles/NAME.py, or what `enginebench scenario-path NAME` prints",
    "-H, --host URL": "The engine's base URL, such as http://127.0.0.1:8080",
    "--headless": "Without the web UI: the load starts at once and the command ends with it",
    "-u, --users N": "Users, so requests in flight (closed_loop, sweep, ramp)",
    "-t, --run-time TIME": "Stop after this time (30s, 10m) and let requests in flight end",
    "--processes N": "Distributed over N processes of this host",
    "--master, --worker": "Distributed over several hosts",
}
"""The options of Locust itself that a benchmark needs; `locust --help` has the rest."""


@click.command(name="options", short_help="List the options of a scenario, for plain Locust and for profiles.")
@click.argument("scenario", required=False, type=click.Choice(scenarios()))
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the page docs/options.md.")
def command(scenario: str | None, as_markdown: bool) -> int:
    """List the options that SCENARIO takes with plain Locust; without SCENARIO, those of all scenarios.

    `locust -f FILE --help` can't show them, since Locust prints its help before it loads FILE.
    """
    width = min(shutil.get_terminal_size((100, 40)).columns, 120)
    click.echo(markdown() if as_markdown else text(scenario, width), nl=not as_markdown)
    return 0


def text(scenario: str | None, width: int) -> str:
    """The options as lines for a terminal."""
    name = scenario or "SCENARIO"
    lines = [f'locust -f "$(enginebench scenario-path {name})" --headless --host URL [OPTIONS]', "", "Options:"]
    for action in actions(scenario):
        lines += _entry(_flag(action), _help(action, scenario), width)
    lines += ["", "Options of Locust itself (locust --help has the rest):"]
    for flag, meaning in LOCUSTS_OWN.items():
        lines += _entry(flag, meaning, width)
    return "\n".join(lines)


def markdown() -> str:
    """docs/options.md, whole."""
    lines = [
        "# Options of the scenarios",
        "",
        "Made by `enginebench options --markdown`; a test keeps this page in step with the program.",
        "",
        "`enginebench options SCENARIO` prints the options that one scenario takes. `locust -f FILE --help` shows none",
        "of them, since Locust prints its help before it loads the file. In a profile, options marked with * are keys",
        "of a cell's `options`, with `_` for `-`; the driver sets the others from the profile's own keys",
        "([profiles.md](profiles.md)).",
        "",
        "| option | default | scenarios | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for action in actions(None):
        star = " *" if action.dest in OF_A_CELL else ""
        of = ", ".join(_takers(action)) or "all"
        lines.append(f"| `{_flag(action)}`{star} | {_default(action) or '–'} | {of} | {action.help} |")
    lines += ["", "Locust's own options that a benchmark needs (`locust --help` has the rest):", ""]
    lines += ["| option | meaning |", "| --- | --- |"]
    lines += [f"| `{flag}` | {meaning} |" for flag, meaning in LOCUSTS_OWN.items()]
    return "\n".join(lines) + "\n"


def actions(scenario: str | None) -> list[argparse.Action]:
    """The options that a scenario has a use for; without one, all."""
    kind = scenario_kind(scenario) if scenario else None
    known = plain_parser()._actions
    return [action for action in known if kind is None or kind in OF_KIND.get(action.dest, (kind,))]


def _takers(action: argparse.Action) -> list[str]:
    kinds = OF_KIND.get(action.dest)
    return [] if kinds is None else [name for name in scenarios() if scenario_kind(name) in kinds]


def _flag(action: argparse.Action) -> str:
    if action.nargs == 0:
        return action.option_strings[0]
    value = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
    return f"{action.option_strings[0]} {value}"


def _default(action: argparse.Action) -> str:
    value = action.default
    return "" if action.nargs == 0 or value == "" else f"{value:g}" if isinstance(value, float) else str(value)


def _help(action: argparse.Action, scenario: str | None) -> str:
    takers = "" if scenario else ", ".join(_takers(action))
    notes = [
        *([f"only {takers}"] if takers else []),
        *([f"default {default}"] if (default := _default(action)) else []),
    ]
    return f"{action.help}" + (f" [{'; '.join(notes)}]" if notes else "")


def _entry(flag: str, meaning: str, width: int) -> list[str]:
    indent = " " * 28
    if len(flag) > 25:
        return [f"  {flag}", *textwrap.wrap(meaning, width, initial_indent=indent, subsequent_indent=indent)]
    return textwrap.wrap(meaning, width, initial_indent=f"  {flag:<26}", subsequent_indent=indent)
