"""Shared by the commands `nightly` and `history`: the option for the file, opening it, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from driver.errors import BenchError, ExitCode
from driver.run.plan import DEFAULT_OUT
from nightly.errors import NightError
from nightly.history.store import VERSION, History, HistoryError
from nightly.report import printable

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


def history_option(name: str) -> Callable[[F], F]:
    """`--history`, given to the command as the parameter `name`."""
    return click.option(
        "--history",
        name,
        type=click.Path(path_type=Path, dir_okay=False),
        default=DEFAULT_OUT / "history.db",
        show_default=True,
        envvar="ENGINEBENCH_HISTORY",
        show_envvar=True,
        help="The SQLite file that keeps the figures of all runs.",
    )


def one_line_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Turn the errors of the history and of the night into the command line's own one-line error."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except NightError as error:
            raise BenchError(printable(error.message), error.exit_code) from None
        except HistoryError as error:
            raise BenchError(printable(error), ExitCode.FAILURE) from None

    return wrapped


def open_history(path: Path, *, begin: bool = False) -> History:
    """Open the history. Reports a migration on stderr.

    Raises:
        HistoryError: the file does not exist and `begin` is false, or it cannot be read.
    """
    if not begin and not path.exists():
        raise HistoryError(f"{path}: no such history; `nightly` and `history import` create one")
    history = History(path)
    if 0 < history.migrated_from < VERSION:
        click.echo(
            f"{path}: migrated from version {history.migrated_from} to {VERSION}; the old file is kept as "
            f"{path.name}.v{history.migrated_from}.bak",
            err=True,
        )
    return history
