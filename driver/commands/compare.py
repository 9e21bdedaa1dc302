"""`compare RUN [RUN_B]`: audits and compares existing captures."""

from __future__ import annotations

from pathlib import Path

import click

from driver.compare_and_report import exit_code, judge, judge_runs
from driver.errors import BenchError, ExitCode
from driver.options.output import Output, output_options
from driver.run.run import open_run
from driver.shell_completion import RunArgument


@click.command(name="compare", short_help="Audit and compare the captures of a run again, or compare two runs.")
@click.argument("run", type=RunArgument(path_type=Path))
@click.argument("run_b", required=False, type=RunArgument(path_type=Path))
@click.option("--engine-a", metavar="NAME", help="With RUN_B: take only this engine from RUN.")
@click.option("--engine-b", metavar="NAME", help="Take only this engine from RUN_B.")
@output_options
def command(run: Path, run_b: Path | None, engine_a: str | None, engine_b: str | None, output: Output) -> int:
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
    output.show(comparison, path)
    return int(exit_code(comparison))
