"""The options of `bisect` and `bisect-step` that say which commits are built, and which figure decides."""

from __future__ import annotations

from pathlib import Path

import click

from scoring.metrics import DECIDING

source_option = click.option(
    "--source", type=click.Path(path_type=Path, file_okay=False), default=Path(), help="The git tree; default: here."
)
build_option = click.option("--build", "build_command", help="Builds a commit, in its folder, without a shell.")
metric_option = click.option(
    "--metric", type=click.Choice(DECIDING), default=DECIDING[0], show_default=True, help="The figure that decides."
)
