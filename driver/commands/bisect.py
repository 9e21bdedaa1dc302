"""`bisect GOOD BAD SERVER`: finds the commit that made a server slower."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from driver.bisect import Judged, Step, compare_commits, find_first_bad, judge_step, limit_between
from driver.commit_builds import commit_of, git
from driver.errors import BenchError, ExitCode
from driver.options import shared
from driver.options.commits import build_option, metric_option, server_and_build, source_option
from driver.options.load import asked, load_options
from driver.run.progress import Display


@click.command(name="bisect", short_help="Find the commit that made a server slower.")
@click.argument("good")
@click.argument("bad")
@click.argument("server", required=False)
@source_option
@build_option
@metric_option
@load_options
@shared.out
@shared.ca
def command(
    good: str,
    bad: str,
    server: str | None,
    source: Path,
    build_command: str | None,
    metric: str,
    out: Path,
    **load: Any,
) -> int:
    """Find the first commit after GOOD, up to BAD, that makes SERVER slower.

    SERVER is a command line with {tree}, the folder of the built commit, and {port}. Each commit is built once, and
    measured in rounds interleaved with GOOD, so that drift of the machine affects both equally. A commit is bad if the
    95% interval of its speed ratio is below the limit half-way between GOOD and BAD.

    \b
    enginebench bisect v1 HEAD "{tree}/build/bin/llama-server -m M.gguf --port {port}" \\
        --source ~/llama.cpp --build "sh -c 'cmake -B build && cmake --build build -j'"

    With --engine llama_cpp, SERVER and --build may be left out: cmake builds llama-server in each commit's folder.

    \b
    enginebench bisect v1 HEAD --engine llama_cpp --model M.gguf --source ~/llama.cpp --rounds auto

    Exit code 0 found, 2 usage, 4 GOOD and BAD do not differ, or commits that could not be judged hide the first one.
    """  # noqa: D301 - click reads \b
    say = Display(quiet=False).say
    served, build = server_and_build(server, build_command, load["engine"])
    ends = [commit_of(source, ref) for ref in (good, bad)]
    if not git(source, "rev-list", f"{ends[0]}..{ends[1]}"):
        raise BenchError(f"{bad} is not after {good}", ExitCode.USAGE)

    def against_good(sha: str, limit: float | None) -> Judged:
        ask = partial(asked, load=load)
        comparison, candidate = compare_commits(
            source, ends[0], sha, served, build, out, ask, metric=metric, limit=limit
        )
        return judge_step(comparison, candidate, metric=metric, limit=limit or 1.0)

    end = against_good(ends[1], None)
    if end.step != Step.BAD or end.ratio is None:
        remedy = "" if end.why.startswith("void") else "; measure longer with --time, or more often with --rounds"
        raise BenchError(f"{bad} is not shown to be slower than {good}: {end.why}{remedy}")
    limit = limit_between(end.ratio)
    say(f"{bad} is {end.ratio:.3f}x as fast as {good}; a commit below {limit:.3f}x is bad")
    first = find_first_bad(source, ends[0], ends[1], lambda sha: against_good(sha, limit), say)
    if len(first) > 1:
        names = ", ".join(sha[:10] for sha in first)
        raise BenchError(f"the first bad commit is one of {names}: the others could not be judged")
    click.echo(git(source, "log", "-1", "--format=first bad commit: %h %s (%an, %as)", first[0]))
    return int(ExitCode.DONE)
