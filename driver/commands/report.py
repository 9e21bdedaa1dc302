"""`report RUN`: renders a comparison again."""

from __future__ import annotations

from pathlib import Path

import click

from driver.compare_and_report import exit_code, newest_comparison, read_comparison, write_reports
from driver.options.output import Output, output_options
from driver.run.run import open_run
from driver.shell_completion import RunArgument


@click.command(name="report", short_help="Write Markdown and HTML of a comparison again.")
@click.argument("run", type=RunArgument(path_type=Path))
@output_options
def command(run: Path, output: Output) -> int:
    """Render the newest comparison of RUN (a run's folder, its name, or a comparison JSON) as Markdown and HTML."""
    path = run if run.suffix == ".json" else newest_comparison(open_run(run))
    comparison = read_comparison(path)
    output.show_again(comparison, write_reports(comparison, path, output.junit))
    return int(exit_code(comparison))
