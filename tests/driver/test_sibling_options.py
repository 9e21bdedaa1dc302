"""Commands that do alike take the same options, from one declaration."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from pathlib import Path

import click
import pytest

from driver import commands
from driver.cli import cli
from tests.driver.bench import Bench

MEASURES = {"run", "ab", "demo", "replay", "nightly"}
COMPARES = {"run", "ab", "demo", "replay", "compare", "report"}
TALKS = {"run", "ab", "replay", "nightly", "doctor", "explore", "bisect", "bisect-step"}
ASKS_BY_URL = {"ab", "replay", "explore", "bisect", "bisect-step"}
TAKES = {
    "--dry-run": MEASURES,
    "--keep-raw": MEASURES,
    "--junit": COMPARES | {"nightly"},
    "--json": COMPARES | {"nightly", "score", "calibrate"},
    "--markdown": COMPARES,
    "--open": COMPARES,
    "--ca": TALKS,
    "--endpoint": ASKS_BY_URL,
    "--header": ASKS_BY_URL,
    "--run-id": MEASURES - {"nightly"} | {"ship"},
}
"""Option -> the commands that have it; a profile has headers and endpoint itself, and a night names itself."""


def program_commands() -> dict[str, click.Command]:
    names = [module.name for module in pkgutil.iter_modules(commands.__path__)]
    return {
        name.replace("_", "-"): importlib.import_module(f"{commands.__name__}.{name}").command
        for name in names
        # `options` lists those of scenarios, as a page of Markdown.
        if not name.startswith("_") and name != "options"
    }


def options_of(command: click.Command) -> dict[str, click.Option]:
    return {word: option for option in command.params if isinstance(option, click.Option) for word in option.opts}


@pytest.mark.parametrize("option", sorted(TAKES))
def test_an_option_is_on_every_command_where_it_makes_sense_and_explained_alike(option: str) -> None:
    found = {name: options_of(command)[option] for name, command in program_commands().items()
             if option in options_of(command)}  # fmt: skip
    assert set(found) == TAKES[option]
    if option != "--json":
        assert len({declared.help for declared in found.values() if declared.name != "run_id"}) <= 1
    assert len({(declared.is_flag, declared.multiple, declared.metavar) for declared in found.values()}) == 1


def test_json_and_markdown_together_are_refused_by_every_command_that_has_both() -> None:
    for name in sorted(COMPARES - {"demo"}):
        assert cli([name, *(["x"] if name != "replay" else ["x", "http://127.0.0.1:1"]), "--json", "--markdown"]) == 2


def test_report_prints_what_run_prints(tmp_path: Path) -> None:
    server = f"{sys.executable} -m engines.pacing_server --host {{host}} --port {{port}} --ttft-ms 2 --tokens 8"
    bench = Bench(tmp_path)
    options = ["--users", "1", "--rounds", "1", "--time", "6s", "--output-tokens", "4", "--run-id", "r"]
    done = bench.run("ab", server, server, *options, "--markdown", "--out", str(tmp_path))
    for command in ("report", "compare"):
        again = bench.run(command, str(tmp_path / "r"), "--markdown")
        assert again.stdout.splitlines()[:3] == done.stdout.splitlines()[:3], again.stderr
        assert json.loads(bench.run(command, str(tmp_path / "r"), "--json").stdout)["run_id"] == "r"
