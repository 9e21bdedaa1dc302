"""`run PROFILE`: measures, compares and reports a profile."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from driver.judge import exit_code, judge, to_json, write_reports
from driver.options import shared
from driver.profile.read import Profile, find_profile, load_profile
from driver.regressions import look_into
from driver.run.plan import earlier_runs, engine_rounds, estimate
from driver.run.progress import Display
from driver.run.prompts import load_workloads
from driver.run.run import run_profile
from driver.shell_completion import ProfileArgument
from records.wording import count
from reporting.pull_request import pull_request
from reporting.terminal import summary


def execute(
    profile: Profile,
    path: Path | None,
    out: Path,
    run_id: str | None,
    *,
    form: str = "terminal",
    junit: Path | None = None,
    keep_raw: bool = False,
    made_by: str | None = None,
    open_report: bool = False,
) -> int:
    """Run, compare and report a profile; `run`, `demo` and `ab` use it.

    Args:
        profile: the profile.
        path: its file; None if it has none, and then `made_by` is the command that made it.
        out: the folder of run folders.
        run_id: name of the run; an incomplete run with that name is finished.
        form: output on stdout: terminal (the last line is the report's path), json or markdown.
        junit: a file for JUnit XML.
        keep_raw: whether to keep the bytes of failed requests.
        made_by: the command that starts the same run, without `--run-id`.
        open_report: whether to open the HTML report in the user's browser.

    Returns:
        The exit code.
    """
    display = Display(quiet=False)
    result = run_profile(profile, path, out, run_id, display, keep_raw=keep_raw, made_by=made_by)
    display.say("auditing and comparing")
    comparison, json_path = judge(result.folder)
    look_into(profile, result.folder, comparison, display)
    reports = write_reports(comparison, json_path, junit)
    if open_report:
        click.launch(str(reports[-1].absolute()))
    if form == "json":
        click.echo(to_json(comparison))
    elif form == "markdown":
        click.echo(pull_request(comparison), nl=False)
    else:
        click.echo(summary(comparison, width=shutil.get_terminal_size((100, 40)).columns))
        click.echo("\n".join(f"report: {report}" for report in reports))
    return int(exit_code(comparison, all_ok=result.all_ok))


@click.command(name="run", short_help="Run a profile: start each engine, load it, compare, report.")
@click.argument("profile", type=ProfileArgument(path_type=Path))
@shared.run_id
@shared.out
@shared.ca
@click.option("--dry-run", is_flag=True, help="Print the plan and an estimate of the time; start nothing.")
@click.option(
    "--keep-raw", is_flag=True, help="Keep the bytes of failed requests, for bug reports: <cell>/raw/<request>.http."
)
@shared.junit
@shared.as_json("the comparison")
def command(
    profile: Path, run_id: str | None, out: Path, dry_run: bool, keep_raw: bool, junit: Path | None, as_json: bool
) -> int:
    """Run PROFILE (a TOML file, or the name of one in profiles/): start each engine, load it, compare, report.

    Exit code 0 done, 1 requests failed, 2 usage, 3 void, 4 engine or host failure.
    """
    loaded = load_profile(profile)
    path = find_profile(profile)
    if dry_run:
        click.echo(plan_text(loaded, out))
        return 0
    return execute(loaded, path, out, run_id, form="json" if as_json else "terminal", junit=junit, keep_raw=keep_raw)


def plan_text(profile: Profile, out: Path) -> str:
    """The plan as text, with the estimated time and its basis."""
    workloads = load_workloads(profile)
    lines = [f"profile {profile.name}: {profile.description}", f"baseline {profile.baseline}"]
    for number, round_ in enumerate(engine_rounds(profile), start=1):
        engine = round_.engine
        slots = f", {count(engine.slots, 'slot')}" if engine.slots else ""
        lines.append(f"{number}. {engine.name} round {round_.number}: {engine.kind}{slots}")
        for cell in round_.cells:
            workload = workloads[cell.workload_name]
            asked = cell.asked or workload.measured * cell.samples
            amount = count(asked, "conversation" if workload.has_conversations else "request")
            amount = f"{cell.duration_s:g} s" if cell.duration_s else amount
            amount = "as long as the search takes" if cell.searches_capacity else amount
            fixed = "exactly" if cell.fixed_length else "at most"
            length = (
                f"{fixed} {cell.max_tokens} tokens each" if cell.max_tokens else "each with its own limit of tokens"
            )
            lines.append(f"   {cell.label}: {amount} (+{cell.warmup} warm-up), {length}")
    guess = estimate(
        profile,
        {name: workload.measured for name, workload in workloads.items()},
        earlier_runs(out),
        requests_each={name: workload.requests_each for name, workload in workloads.items()},
    )
    minutes = round(guess.seconds / 60)
    lines.append(f"about {count(max(1, minutes), 'minute')} ({guess.basis})")
    return "\n".join(lines)
