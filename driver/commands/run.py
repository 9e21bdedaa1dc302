"""`run PROFILE`: measures, compares and reports a profile."""

from __future__ import annotations

from pathlib import Path

import click

from driver.compare_and_report import exit_code, judge
from driver.options import shared
from driver.options.output import Output, output_options
from driver.profile.read import Profile, find_profile, load_profile
from driver.regressions import look_into
from driver.run.plan import earlier_runs, engine_rounds, estimate
from driver.run.progress import Display
from driver.run.prompts import load_workloads
from driver.run.run import run_profile
from driver.shell_completion import ProfileArgument
from records.wording import count


def execute(
    profile: Profile,
    path: Path | None,
    out: Path,
    run_id: str | None,
    *,
    output: Output,
    keep_raw: bool = False,
    made_by: str | None = None,
) -> int:
    """Run, compare and report a profile; `run`, `demo` and `ab` use it.

    Args:
        profile: the profile.
        path: its file; None if it has none, and then `made_by` is the command that made it.
        out: the folder of run folders.
        run_id: name of the run; an incomplete run with that name is finished.
        output: what is printed and written beside the run's folder.
        keep_raw: whether to keep the bytes of failed requests.
        made_by: the command that starts the same run, without `--run-id`.

    Returns:
        The exit code.
    """
    display = Display(quiet=False)
    result = run_profile(profile, path, out, run_id, display, keep_raw=keep_raw, made_by=made_by)
    display.say("auditing and comparing")
    comparison, json_path = judge(result.folder)
    look_into(profile, result.folder, comparison, display)
    output.show(comparison, json_path)
    return int(exit_code(comparison, all_ok=result.all_ok))


@click.command(name="run", short_help="Run a profile: start each engine, load it, compare, report.")
@click.argument("profile", type=ProfileArgument(path_type=Path))
@shared.run_id
@shared.out
@shared.ca
@shared.dry_run
@shared.keep_raw
@output_options
def command(profile: Path, run_id: str | None, out: Path, dry_run: bool, keep_raw: bool, output: Output) -> int:
    """Run PROFILE (a TOML file, or the name of one in profiles/): start each engine, load it, compare, report.

    Exit code 0 done, 1 requests failed, 2 usage, 3 void, 4 engine or host failure.
    """
    loaded = load_profile(profile)
    path = find_profile(profile)
    if dry_run:
        click.echo(plan_text(loaded, out))
        return 0
    return execute(loaded, path, out, run_id, output=output, keep_raw=keep_raw)


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
