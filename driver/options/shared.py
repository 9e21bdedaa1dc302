"""Options that several commands share, so that they are called and explained alike."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from driver.errors import BenchError, ExitCode
from driver.run.plan import DEFAULT_OUT
from records.endpoint import CHAT, ENDPOINTS
from records.headers import parse_headers

F = TypeVar("F", bound=Callable[..., Any])

out = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_OUT,
    show_default=True,
    help="Folder that holds the folders of runs.",
)
run_id = click.option("--run-id", help="Name the run; a run of that name that is not complete is finished.")
junit = click.option(
    "--junit", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write JUnit XML there as well."
)


def _trust(_context: click.Context, _option: click.Parameter, path: Path | None) -> None:
    # OpenSSL reads the variable in this process and in the load processes that inherit it.
    if path is not None:
        os.environ["SSL_CERT_FILE"] = str(path.resolve())


ca = click.option(
    "--ca",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    expose_value=False,
    callback=_trust,
    help="Certificates (PEM) to trust for https engines, in place of the system's; SSL_CERT_FILE does the same.",
)


dry_run = click.option("--dry-run", is_flag=True, help="Print the plan and an estimate of the time; start nothing.")
keep_raw = click.option(
    "--keep-raw", is_flag=True, help="Keep the bytes of failed requests, for bug reports: <cell>/raw/<request>.http."
)
endpoint = click.option(
    "--endpoint",
    type=click.Choice(list(ENDPOINTS)),
    default=CHAT,
    show_default=True,
    help="chat asks /v1/chat/completions; completions asks /v1/completions, without a chat template.",
)
header = click.option(
    "--header",
    multiple=True,
    metavar="NAME=ENV:VAR",
    help="Another header of each request, its value from a variable; NAME=VALUE for what is no secret.",
)


def headers_of(words: tuple[str, ...]) -> dict[str, str]:
    """The headers that `--header` gives.

    Raises:
        BenchError: one is no header (exit code 2).
    """
    try:
        return parse_headers(words)
    except ValueError as error:
        raise BenchError(f"--header {error}", ExitCode.USAGE) from None


def as_json(what: str) -> Callable[[F], F]:
    """`--json`: `what` is printed on stdout, and nothing else there."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON on stdout, for scripts.")
