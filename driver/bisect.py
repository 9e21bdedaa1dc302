"""Finds the commit that made a server slower: measures commits, interleaved with the good commit, by bisection."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from driver.ab import Asked, profile_values
from driver.commit_builds import TREE, BuildFailedError, built, git
from driver.compare_and_report import judge, write_reports
from driver.errors import BenchError, ExitCode
from driver.profile.read import parse_profile
from driver.run.progress import Display
from driver.run.run import run_profile
from records import JsonObject


class Step(IntEnum):
    """The result for a commit, as an exit code for `git bisect run`."""

    GOOD = 0
    BAD = 1
    UNKNOWN = 125
    """Build failed, void, engine failure, or undecided: git skips the commit."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The result for one commit against the good commit, with its evidence."""

    step: Step
    why: str
    ratio: float | None = None
    """The lowest speed ratio of all cells; above 1 the commit is faster than the good commit."""


def compare_commits(
    source: Path,
    good: str,
    ref: str,
    server: str,
    build: str | None,
    out: Path,
    ask: Callable[[tuple[str, ...], tuple[str, ...]], Asked],
    *,
    metric: str,
    limit: float | None,
) -> tuple[JsonObject, str]:
    """Measure two commits as `ab` does.

    Args:
        source: the git tree.
        good: the commit of the baseline.
        ref: the commit of the candidate.
        server: command line of the server, with {tree} and {port}.
        build: command that builds a commit.
        out: folder that holds the folders of runs.
        ask: makes the request for `ab` from the command lines of the two servers and their names.
        metric: the figure that decides.
        limit: with rounds = "auto", measure until its speed ratio lies on one side of this; None: until its verdict.

    Returns:
        The comparison, and the name of `ref`'s engine in it.

    Raises:
        BuildFailedError: a commit cannot be built.
        BenchError: the run was stopped or refused.
    """
    if TREE not in server:
        raise BenchError("SERVER: must contain {tree}, the folder of the built commit", ExitCode.USAGE)
    display = Display(quiet=False)
    trees = [built(source, commit, build, display.say) for commit in (good, ref)]
    names = (trees[0].name, trees[1].name if trees[1].sha != trees[0].sha else f"{trees[1].name}-again")
    sides = tuple(tree.fill(server) for tree in trees)
    # One figure decides, so that its interval need not be wide enough for three.
    values = profile_values(ask(sides, names)) | {"name": "bisect", "verdict": {"deciding": [metric]}}
    profile = parse_profile(values, "bisect")
    result = run_profile(profile, None, out, None, display, made_by="enginebench bisect-step", side_of=limit)
    comparison, path = judge(result.folder)
    write_reports(comparison, path)
    return comparison, names[1]


def judge_step(comparison: JsonObject, candidate: str, *, metric: str, limit: float) -> Judged:
    """Decide whether the speed ratios of a commit are above or below `limit`.

    A commit is bad if the whole 95% interval of any cell is below `limit`, and good if the intervals of all cells are
    above it. The interval is the comparison's, adjusted for the number of figures where it has a verdict.
    """
    if comparison["verdict"]["void"]:
        reasons = comparison["verdict"].get("reasons") or ["an audit check failed"]
        return Judged(Step.UNKNOWN, f"void: {reasons[0]}")
    intervals = {}
    for row in comparison["performance"]:
        ratio = (row.get("speed_ratio") or {}).get(candidate) or {}
        if row["metric"] == metric and ratio.get("value") is not None:
            interval = ratio.get("ci_adjusted") or ratio.get("ci")
            intervals[row["cell"]] = (ratio["value"], *(interval or (0.0, math.inf)))
    if not intervals:
        return Judged(Step.UNKNOWN, f"no figure of {metric}")
    cell = min(intervals, key=lambda name: intervals[name][0])
    value, low, high = intervals[cell]
    figure = f"{metric} {value:.3f}x [{low:.3f}, {high:.3f}] in {cell}, limit {limit:.3f}x"
    if any(high < limit for _, _, high in intervals.values()):
        return Judged(Step.BAD, figure, value)
    if all(low > limit for _, low, _ in intervals.values()):
        return Judged(Step.GOOD, figure, value)
    return Judged(Step.UNKNOWN, f"not decided: {figure}", value)


def limit_between(ratio: float) -> float:
    """The limit half-way (geometric mean) between the good end, 1, and the bad end's ratio to it."""
    return math.sqrt(ratio)


def find_first_bad(
    source: Path, good: str, bad: str, measure: Callable[[str], Judged], say: Callable[[str], None]
) -> list[str]:
    """Let `git bisect` choose commits, in a separate worktree, and report each result to it.

    Args:
        source: the git tree.
        good: hash of the good commit.
        bad: hash of the bad commit.
        measure: builds and measures the commit with a hash.
        say: called with one line for each commit.

    Returns:
        The first bad commit; or several candidates for it, where some commits could not be judged.
    """
    with tempfile.TemporaryDirectory(prefix="enginebench-bisect-") as scratch:
        tree = Path(scratch) / "tree"
        git(source, "worktree", "add", "--quiet", "--detach", "--no-checkout", str(tree), bad)
        try:
            output = git(tree, "bisect", "start", "--no-checkout", bad, good)
            while "is the first bad commit" not in output:
                sha = git(tree, "rev-parse", "BISECT_HEAD")
                judged = _guarded(measure, sha)
                word = {Step.GOOD: "good", Step.BAD: "bad", Step.UNKNOWN: "skip"}[judged.step]
                say(f"{sha[:10]} is {word}: {judged.why}")
                bisect = subprocess.run(
                    ["git", "-C", str(tree), "bisect", word, sha], capture_output=True, text=True, check=False
                )
                output = bisect.stdout
                if "only 'skip'ped commits left" in output:
                    return [line for line in output.splitlines() if len(line) >= 40 and " " not in line.strip()]
                if bisect.returncode:
                    raise BenchError(f"git bisect {word}: {(bisect.stderr or output).strip()}", ExitCode.FAILURE)
            return [output.partition(" is the first bad commit")[0].split()[-1]]
        finally:
            with suppress(BenchError):
                git(source, "worktree", "remove", "--force", str(tree))


def _guarded(measure: Callable[[str], Judged], sha: str) -> Judged:
    """Measure a commit. A failed build or server gives UNKNOWN; a usage error is raised and stops the bisection."""
    try:
        return measure(sha)
    except BuildFailedError as error:
        return Judged(Step.UNKNOWN, error.message)
    except BenchError as error:
        if error.exit_code == ExitCode.USAGE:
            raise
        return Judged(Step.UNKNOWN, error.message)
