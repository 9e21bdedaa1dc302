"""`score RUN`: grades the captured answers again, with today's grader."""

from __future__ import annotations

from pathlib import Path

import click

from driver.compare_and_report import score_run
from driver.options import shared
from driver.run.run import open_run
from driver.shell_completion import RunArgument
from records import write_json
from records.wording import count


@click.command(name="score", short_help="Grade captured answers with today's grader.")
@click.argument("run", type=RunArgument(path_type=Path))
@click.option("--cross-check", is_flag=True, help="List disagreements of math-verify (optional); grades do not change.")
@shared.as_json("the scores")
def command(run: Path, cross_check: bool, as_json: bool) -> int:
    """Grade the completions of RUN and write scores.json into its folder: correct, strict, by method."""
    folder = open_run(run)
    scores = score_run(folder, cross_check=cross_check)
    path = folder.path / "scores.json"
    write_json(path, scores)
    if as_json:
        click.echo(path.read_text(encoding="utf-8"), nl=False)
        return 0
    if not scores["quality"]:
        click.echo("nothing to grade: no captured workload has known answers")
    for row in scores["quality"]:
        for name, graded in row["engines"].items():
            click.echo(
                f"{row['workload']} {name}: {graded['correct']}/{graded['n']} correct, "
                f"{graded['strict_correct']} strict, "
                f"{graded['no_answer']} without answer, {graded['truncated']} truncated, "
                f"{count(graded['errors'], 'error')}"
            )
    if found := scores.get("cross_check"):
        checked, odd = count(found["checked"], "answer"), count(len(found["disagreements"]), "disagreement")
        click.echo(f"cross-check: {checked} checked, {odd}")
        for line in [*found["disagreements"], *([found["note"]] if found["note"] else [])]:
            click.echo(f"  {line}")
    click.echo(f"scores: {path} (grader {scores['grader_version']})")
    return 0
