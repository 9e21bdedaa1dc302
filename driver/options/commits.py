"""The options of `bisect` and `bisect-step` that say which commits are built, and which figure decides."""

from __future__ import annotations

from pathlib import Path

import click

from driver.errors import BenchError, ExitCode
from engines import EngineError
from engines.build.llama_server import in_tree_command
from scoring.metrics import DECIDING

source_option = click.option(
    "--source", type=click.Path(path_type=Path, file_okay=False), default=Path(), help="The git tree; default: here."
)
build_option = click.option("--build", "build_command", help="Builds a commit, in its folder, without a shell.")
metric_option = click.option(
    "--metric", type=click.Choice(DECIDING), default=DECIDING[0], show_default=True, help="The figure that decides."
)
LLAMA_SERVER = "{tree}/build/bin/llama-server"
"""What `in_tree_command` builds."""


def server_and_build(server: str | None, build: str | None, engine: str | None) -> tuple[str, str | None]:
    """The command lines that serve and build a commit; `--engine llama_cpp` knows both.

    Raises:
        BenchError: no server is given, or there is no compiler (exit code 2).
    """
    if engine == "llama_cpp":
        try:
            return server or LLAMA_SERVER, build or in_tree_command()
        except EngineError as error:
            raise BenchError(str(error), ExitCode.USAGE) from None
    if server is None:
        raise BenchError(
            "SERVER is missing: a command line with {tree} and {port}; --engine llama_cpp needs none", ExitCode.USAGE
        )
    return server, build
