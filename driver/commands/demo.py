"""`demo`: compares two real engines on this machine, without a GPU."""

from __future__ import annotations

from pathlib import Path

import click

from driver.commands.run import execute
from driver.options import shared
from driver.profile.read import find_profile, load_profile


@click.command(name="demo", short_help="Compare two real engines in a few minutes, without a GPU.")
@shared.run_id
@shared.out
@shared.as_json("the comparison")
def command(run_id: str | None, out: Path, as_json: bool) -> int:
    """Compare two real llama.cpp servers, with 4 slots and with 1, on SmolLM2-135M: a few minutes, no GPU."""
    return execute(load_profile("demo"), find_profile("demo"), out, run_id, form="json" if as_json else "terminal")
