"""`demo`: the main job on this machine without a GPU."""

from __future__ import annotations

from pathlib import Path

import click

from driver.commands.run import execute
from driver.profile import find_profile, load_profile


@click.command(name="demo", short_help="The main job in a few minutes, without a GPU.")
@click.option("--run-id", help="Finish or name a run, as with `run`.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("bench-out"), show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON on stdout.")
def command(run_id: str | None, out: Path, as_json: bool) -> int:
    """Compare two real llama.cpp servers, with 4 slots and with 1, on SmolLM2-135M: a few minutes, no GPU."""
    return execute(load_profile("demo"), find_profile("demo"), out, run_id, as_json=as_json)
