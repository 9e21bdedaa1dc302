"""`nightly PROFILE`: measures and compares with earlier nights, for cron or CI."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from driver.commands.run import plan_text
from driver.errors import BenchError, ExitCode
from driver.nightly_measurement import gate_rules, measure_with, part_of, take_measured
from driver.options import shared
from driver.options.history import history_option, one_line_errors
from driver.profile.read import find_profile, load_profile
from driver.shell_completion import ProfileArgument
from nightly import report as reports
from nightly.gate_rules import parse_choice
from nightly.guard import notify, parse_duration
from nightly.night import NightlyOptions, nightly
from nightly.page import night_html
from nightly.result import NightResult
from records import RunFolder, write_json, write_text
from records.utc import utc_now


@click.command(short_help="Measure, compare with earlier nights, confirm, report. For cron and CI.")
@click.argument("profile", type=ProfileArgument(path_type=Path))
@click.option(
    "--baseline",
    help="series, pinned, last-good, window:N, or run (two engines tonight). Default: gate.baseline, else series.",
)
@click.option("--engine", "engines", multiple=True, help="Run only this engine; may be repeated.")
@history_option("history")
@shared.out
@click.option(
    "--time-limit", metavar="TIME", help="Such as 90m or 3h. Default: the profile's gate.time_limit_s, else none."
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Default: the profile's gate.threshold.",
)
@click.option("--no-confirm", is_flag=True, help="Report a regression without a second measurement.")
@click.option(
    "--summary",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write Markdown there (GITHUB_STEP_SUMMARY is used too).",
)
@shared.ca
@shared.dry_run
@shared.keep_raw
@shared.junit
@click.option(
    "--notify", "hook", metavar="CMD", help="Run CMD with the result as JSON on its standard input; no shell."
)
@click.option("--notify-on", type=click.Choice(["failure", "always"]), default="failure", show_default=True)
@click.option(
    "--keep", type=click.IntRange(min=1), metavar="N", help="Delete the run folders of all but the newest N nights."
)
@click.option(
    "--measured",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Judge this run folder instead of measuring; give a second one to confirm.",
)
@shared.as_json("the result")
@one_line_errors
def command(
    profile: Path,
    baseline: str | None,
    engines: tuple[str, ...],
    history: Path,
    out: Path,
    time_limit: str | None,
    threshold: float | None,
    no_confirm: bool,
    summary: Path | None,
    dry_run: bool,
    keep_raw: bool,
    junit: Path | None,
    hook: str | None,
    notify_on: str,
    keep: int | None,
    measured: tuple[Path, ...],
    as_json: bool,
) -> int:
    """Measure PROFILE and compare it with earlier nights.

    Exit codes: 0 no regression; 1 a regression (confirmed by a second measurement), or requests failed; 2 usage;
    3 void; 4 engine, host or run failure, time limit, or another nightly is running.
    """
    loaded = load_profile(profile)
    try:
        choice = parse_choice(baseline or loaded.gate.baseline)
    except ValueError as error:
        raise BenchError(f"--baseline: {error}", ExitCode.USAGE) from None
    try:
        limit = parse_duration(time_limit) if time_limit else loaded.gate.time_limit_s
    except ValueError as error:
        raise BenchError(f"--time-limit: {error}", ExitCode.USAGE) from None
    asked = part_of(loaded, engines)
    if dry_run:
        click.echo(plan_text(asked, out))
        return 0
    out = out.resolve()  # The load process runs in another folder; cron may run this in any.
    options = NightlyOptions(
        history=history,
        out=out,
        rules=gate_rules(asked, choice, threshold),
        time_limit_s=limit,
        confirm=not no_confirm,
        keep=None if measured else keep,
    )
    measure = (
        take_measured(measured)
        if measured
        else measure_with(asked, find_profile(profile), out, quiet=as_json, keep_raw=keep_raw)
    )

    def report(result: NightResult) -> None:
        # Also called when the night failed, so that a report is written before the error.
        try:
            _write_page(result)
            _write(result, summary, junit)
        finally:
            if hook and (notify_on == "always" or result.exit_code != ExitCode.DONE):
                _notify(hook, result)
        if as_json:
            click.echo(json.dumps(result.to_json(), indent=2))
        elif result.failure is None:
            click.echo("\n".join(reports.terminal(result)))

    return nightly(options, measure, report, now=utc_now()).exit_code


def _write_page(result: NightResult) -> None:
    """Write `night.html` and `night.json` into the run's folder, and the reports of its measurement again.

    The page links to the measurement's report and takes its place; that report then begins with the night's verdict.
    """
    if result.folder is None:
        return
    comparison = Path(result.report) if result.report else None
    page = Path(result.folder) / "night.html"
    write_text(page, night_html(result, comparison.name if comparison else None))
    result.report = str(page)
    write_json(RunFolder(Path(result.folder)).night, result.to_json())
    if comparison:
        from driver.compare_and_report import read_comparison, write_reports

        json_path = comparison.with_suffix(".json")
        write_reports(read_comparison(json_path), json_path)


def _write(result: NightResult, summary: Path | None, junit: Path | None) -> None:
    for path, render in ((junit, reports.junit), (summary, reports.markdown)):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, render(result))
    if of_ci := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(of_ci).open("a", encoding="utf-8") as out:
            out.write(reports.markdown(result))


def _notify(hook: str, result: NightResult) -> None:
    if problem := notify(hook, result.to_json()):
        click.echo(f"enginebench: {problem}", err=True)
