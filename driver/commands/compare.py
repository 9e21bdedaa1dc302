"""`compare RUN [RUN_B]`: audits and compares existing captures."""

from __future__ import annotations

from pathlib import Path

import click

from driver.errors import BenchError, ExitCode
from driver.judge import exit_code, judge, judge_runs, to_json, write_reports
from driver.options import shared
from driver.run.run import open_run
from driver.shell_completion import RunArgument
from reporting.terminal import summary


@click.command(name="compare", short_help="Audit and compare the captures of a run again, or compare two runs.")
@click.argument("run", type=RunArgument(path_type=Path))
@click.argument("run_b", required=False, type=RunArgument(path_type=Path))
@click.option("--engine-a", metavar="NAME", help="With RUN_B: take only this engine from RUN.")
@click.option("--engine-b", metavar="NAME", help="Take only this engine from RUN_B.")
@shared.junit
@shared.as_json("the comparison")
def command(
    run: Path, run_b: Path | None, engine_a: str | None, engine_b: str | None, junit: Path | None, as_json: bool
) -> int:
    """Audit and compare the captures of RUN; with RUN_B, compare two runs, with RUN as the baseline.

    If the manifests of two runs do not match (model, prompts, sampling, context, GPU), the report warns or is void.
    """
    folder = open_run(run)
    if run_b is not None:
        if open_run(run_b).path.samefile(folder.path):
            raise BenchError(f"{run} and {run_b}: two different runs are needed", ExitCode.USAGE)
        comparison, path = judge_runs(folder, open_run(run_b), engine_a, engine_b)
    elif engine_a or engine_b:
        raise BenchError("--engine-a and --engine-b choose engines of two runs: give RUN_B as well", ExitCode.USAGE)
    else:
        comparison, path = judge(folder)
    reports = write_reports(comparison, path, junit)
    if as_json:
        click.echo(to_json(comparison))
    else:
        click.echo(summary(comparison))
        click.echo("\n".join(f"report: {report}" for report in reports))
    return int(exit_code(comparison))
