"""`bisect-step SERVER`: tests whether the checked-out commit is slower, for `git bisect run`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from driver.bisect import Step, compare_commits, judge_step
from driver.commit_builds import BuildFailedError
from driver.errors import BenchError, ExitCode
from driver.options import shared
from driver.options.commits import build_option, metric_option, server_and_build, source_option
from driver.options.load import asked, load_options


@click.command(name="bisect-step", short_help="Is the checked-out commit slower? For `git bisect run`.")
@click.argument("server", required=False)
@click.option("--good", required=True, help="The commit with which the checked-out commit is compared.")
@click.option(
    "--regression",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.1,
    show_default=True,
    help="The slowdown to look for; the limit is half of it.",
)
@source_option
@build_option
@metric_option
@load_options
@shared.out
@shared.ca
def command(
    server: str | None,
    good: str,
    regression: float,
    source: Path,
    build_command: str | None,
    metric: str,
    out: Path,
    **load: Any,
) -> int:
    """Build and measure the commit that is checked out in --source, interleaved with the commit --good.

    SERVER is a command line with {tree}, the folder of the built commit, and {port}. With --engine llama_cpp, SERVER
    and --build may be left out.

    Exit code 0 good, 1 bad, 125 unknown (build failed, void, engine failure, undecided); 128 a usage error, which ends
    `git bisect run`.
    """
    limit, ask = 1 - regression / 2, partial(asked, load=load)
    try:
        served, build = server_and_build(server, build_command, load["engine"])
        comparison, candidate = compare_commits(
            source, good, "HEAD", served, build, out, ask, metric=metric, limit=limit
        )
    except BuildFailedError as error:
        return _ended(error.message, Step.UNKNOWN)
    except BenchError as error:
        return _ended(error.message, 128 if error.exit_code == ExitCode.USAGE else Step.UNKNOWN)
    judged = judge_step(comparison, candidate, metric=metric, limit=limit)
    return _ended(f"{judged.step.name.lower()}: {judged.why}", judged.step)


def _ended(message: str, code: int) -> int:
    click.echo(f"bisect-step: {message}", err=True)
    return int(code)
