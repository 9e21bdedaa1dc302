"""`demo`: compares two real engines on this machine, without a GPU."""

from __future__ import annotations

from pathlib import Path

import click

from driver.commands.run import execute, plan_text
from driver.options import shared
from driver.options.output import Output, output_options
from driver.profile.read import find_profile, load_profile


@click.command(name="demo", short_help="Compare two real engines in a few minutes, without a GPU.")
@shared.run_id
@shared.out
@shared.dry_run
@shared.keep_raw
@output_options
def command(run_id: str | None, out: Path, dry_run: bool, keep_raw: bool, output: Output) -> int:
    """Compare two real llama.cpp servers, with 4 slots and with 1, on SmolLM2-135M: a few minutes, no GPU."""
    profile = load_profile("demo")
    if dry_run:
        click.echo(plan_text(profile, out))
        return 0
    return execute(profile, find_profile("demo"), out, run_id, output=output, keep_raw=keep_raw)
