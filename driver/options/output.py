"""What a command that ends with a comparison prints and writes: the same options and the same output on each."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from driver.compare_and_report import to_json, write_reports
from driver.options import shared
from records import JsonObject
from reporting.pull_request import pull_request
from reporting.terminal import summary


@dataclass(frozen=True, slots=True)
class Output:
    """`form` is what stdout gets: terminal (the last lines are the reports' paths), json or markdown."""

    form: str = "terminal"
    junit: Path | None = None
    open_report: bool = False

    def show(self, comparison: JsonObject, json_path: Path) -> None:
        """Write the reports of a comparison beside its JSON, and print and open what was asked for."""
        reports = write_reports(comparison, json_path, self.junit)
        if self.form == "terminal":
            click.echo(summary(comparison, width=shutil.get_terminal_size((100, 40)).columns))
        self.show_again(comparison, reports)

    def show_again(self, comparison: JsonObject, reports: Sequence[Path]) -> None:
        """Print the paths of reports, or the form that was asked for in their place; open the page if asked to."""
        if self.open_report:
            click.launch(str(reports[-1].absolute()))
        if self.form == "json":
            click.echo(to_json(comparison))
        elif self.form == "markdown":
            click.echo(pull_request(comparison), nl=False)
        else:
            click.echo("\n".join(f"report: {report}" for report in reports))


_OPTIONS = (
    shared.junit,
    shared.as_json("the comparison"),
    click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown for a pull request."),
    click.option("--open", "open_report", is_flag=True, help="Open the HTML report."),
)


def output_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add `--junit`, `--json`, `--markdown` and `--open`; the command gets them as `output`."""

    @functools.wraps(function)
    def command(
        *args: Any, junit: Path | None, as_json: bool, as_markdown: bool, open_report: bool, **options: Any
    ) -> int:
        if as_json and as_markdown:
            raise click.UsageError("--json and --markdown exclude each other")
        form = "json" if as_json else "markdown" if as_markdown else "terminal"
        return function(*args, output=Output(form, junit, open_report), **options)

    for option in reversed(_OPTIONS):
        command = option(command)
    return command
