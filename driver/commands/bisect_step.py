"""`bisect-step SERVER`: is the checked-out commit slower? For `git bisect run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from driver.ab import profile_values
from driver.bisect import Step, judge_step
from driver.commands import _shared
from driver.commands._load_options import asked, load_options
from driver.errors import BenchError, ExitCode
from driver.judge import judge, write_reports
from driver.profile.read import parse_profile
from driver.run.progress import Display
from driver.run.run import run_profile
from driver.trees import TREE, BuildFailedError, built
from records import JsonObject
from scoring.metrics import DECIDING

source_option = click.option(
    "--source", type=click.Path(path_type=Path, file_okay=False), default=Path(), help="The git tree; default: here."
)
build_option = click.option("--build", "build_command", help="Builds a commit, in its folder, without a shell.")
metric_option = click.option(
    "--metric", type=click.Choice(DECIDING), default=DECIDING[0], show_default=True, help="The figure that decides."
)


@click.command(name="bisect-step", short_help="Is the checked-out commit slower? For `git bisect run`.")
@click.argument("server")
@click.option("--good", required=True, help="The commit that the checked-out one is compared with.")
@click.option(
    "--regression",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.1,
    show_default=True,
    help="The slowdown that is looked for; the limit is half of it.",
)
@source_option
@build_option
@metric_option
@load_options
@_shared.out
def command(
    server: str,
    good: str,
    regression: float,
    source: Path,
    build_command: str | None,
    metric: str,
    out: Path,
    **load: Any,
) -> int:
    """Build and measure the commit that is checked out in --source, interleaved with the commit --good.

    SERVER is a command line with {tree}, the folder of the built commit, and {port}.

    Exit code 0 good, 1 bad, 125 not known (build failed, void, engine failure, undecided); 128 a mistake in this
    command line, which ends `git bisect run`.
    """
    try:
        comparison, candidate = compare_commits(source, good, "HEAD", server, build_command, out, load)
    except BuildFailedError as error:
        return _ended(error.message, Step.UNKNOWN)
    except BenchError as error:
        return _ended(error.message, 128 if error.exit_code == ExitCode.USAGE else Step.UNKNOWN)
    judged = judge_step(comparison, candidate, metric=metric, limit=1 - regression / 2)
    return _ended(f"{judged.step.name.lower()}: {judged.why}", judged.step)


def _ended(message: str, code: int) -> int:
    click.echo(f"bisect-step: {message}", err=True)
    return int(code)


def compare_commits(
    source: Path, good: str, ref: str, server: str, build: str | None, out: Path, load: dict[str, Any]
) -> tuple[JsonObject, str]:
    """Measure two commits as `ab` does.

    Returns:
        The comparison, and the name of the engine that is `ref`.

    Raises:
        BuildFailedError: one of them cannot be built.
        BenchError: what stops a run.
    """
    if TREE not in server:
        raise BenchError("SERVER: needs {tree}, the folder of the built commit", ExitCode.USAGE)
    display = Display(quiet=False)
    trees = [built(source, each, build, display.say) for each in (good, ref)]
    names = (trees[0].name, trees[1].name if trees[1].sha != trees[0].sha else f"{trees[1].name}-again")
    sides = tuple(tree.fill(server) for tree in trees)
    profile = parse_profile(profile_values(asked(sides, names, load)) | {"name": "bisect"}, "bisect")
    result = run_profile(profile, None, out, None, display, made_by="enginebench bisect-step")
    comparison, path = judge(result.folder)
    write_reports(comparison, path)
    return comparison, names[1]
