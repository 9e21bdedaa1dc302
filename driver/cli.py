"""The click group behind enginebench: finds the commands, and converts every error into its exit code."""

from __future__ import annotations

import difflib
import importlib
import os
import pkgutil
import select
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click

from driver import commands
from driver.errors import BenchError, ExitCode, Stopped
from driver.profile.read import ProfileError
from records.redaction import scrub
from reporting.escape import terminal


class _Commands(click.Group):
    """Loads a command's module only when it is called or listed, so that one command's `--help` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = [module.name for module in pkgutil.iter_modules(commands.__path__)]
        return sorted(name.replace("_", "-") for name in names if name[0] != "_")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"{commands.__name__}.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in (known := self.list_commands(ctx)) and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], known, 1, cutoff=0.5)
            ctx.fail(f"No such command {args[0]!r}{f'; did you mean {near[0]!r}?' if near else ''}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            # click would exit with code 1, which means a regression here.
            raise _PipeError(str(error)) from error


class _PipeError(Exception):
    """The other end of a pipe was closed."""


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="enginebench")
def _group() -> None:
    """Put LLM serving engines head to head: speed and answer quality, and whether the comparison was fair.

    Shell completion: eval "$(_ENGINEBENCH_COMPLETE=bash_source enginebench)", likewise zsh_source and fish_source.
    """


def cli(arguments: list[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code (see `driver.errors.ExitCode`); errors are one line on stderr, never a traceback.
    """
    try:
        with _signals_as_exceptions():
            code = _group.main(arguments, prog_name="enginebench", standalone_mode=False)
        return code if isinstance(code, int) else int(ExitCode.DONE)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return int(ExitCode.USAGE)
    except click.UsageError as error:
        asked = error.ctx.command_path if error.ctx else "enginebench"
        message = " ".join(error.format_message().split()).rstrip(".")
        return _say(f"{message}; see {asked} --help", ExitCode.USAGE)
    except (Stopped, BenchError) as end:
        return _say(f"{end.message}; {end.hint}" if end.hint else end.message, end.exit_code)
    except ProfileError as error:
        return _say(str(error), ExitCode.USAGE)
    except _PipeError as error:
        return int(ExitCode.DONE) if _reader_left() else _say(str(error), ExitCode.FAILURE)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror or error}", ExitCode.FAILURE)
    except Exception as error:
        # An internal error must not look like a regression, which is exit code 1.
        return _say(_fault(error), ExitCode.FAILURE)


def _say(message: str, code: ExitCode) -> int:
    # The message may quote an engine's log or a file name with any characters.
    for line in message.splitlines():
        click.echo(f"enginebench: {terminal(scrub(line), limit=None)}", err=True)
    return int(code)


def _fault(error: Exception) -> str:
    """One line for an unexpected error; with ENGINEBENCH_DEBUG, the traceback comes first."""
    if os.environ.get("ENGINEBENCH_DEBUG"):
        traceback.print_exception(error)
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    text = " ".join(str(error).split())[:300]
    return f"a fault of enginebench ({type(error).__name__}: {text}; {place}); ENGINEBENCH_DEBUG=1 shows its traceback"


def _reader_left() -> bool:
    """Whether stdout is a pipe whose reader, such as `head`, has ended; this is no error."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    if not poll.poll(0):
        return False
    # Python flushes stdout once more when it exits.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return True


@contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    before = {sign: signal.getsignal(sign) for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    # Under nohup, or in the background of a script, a signal is ignored on purpose.
    handled = [sign for sign, handler in before.items() if handler is not signal.SIG_IGN]
    for sign in handled:
        signal.signal(sign, _stop)
    try:
        yield
    finally:
        for sign in handled:
            signal.signal(sign, before[sign])


def _stop(signum: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(signal.Signals(signum))
