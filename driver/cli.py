"""The click group behind run_bench.py: finds the commands, and turns every end into its exit code."""

from __future__ import annotations

import importlib
import os
import pkgutil
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from driver import commands
from driver.errors import BenchError, ExitCode
from driver.profile import ProfileError


class _Commands(click.Group):
    """Loads a command's module only when it is called or listed, so that `--help` of one never pays for all."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(module.name for module in pkgutil.iter_modules(commands.__path__) if module.name[0] != "_")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"{commands.__name__}.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="enginebench")
def _group() -> None:
    """Put LLM serving engines head to head: speed and answer quality, and whether the comparison was fair.

    Shell completion: eval "$(_ENGINEBENCH_COMPLETE=bash_source enginebench)", likewise zsh_source and fish_source.
    """


class _Terminated(BaseException):
    """SIGTERM, raised in the main thread so that every `with` on the way out stops what it started."""


def cli(arguments: list[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit code (see `driver.errors.ExitCode`); errors are one line on stderr, never a traceback.
    """
    signal.signal(signal.SIGTERM, _raise_terminated)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, _raise_terminated)
    try:
        code = _group.main(arguments, prog_name="enginebench", standalone_mode=False)
        return code if isinstance(code, int) else int(ExitCode.DONE)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.UsageError as error:
        error.show()
        return int(ExitCode.USAGE)
    except (click.Abort, KeyboardInterrupt):
        return _say("stopped by SIGINT; what was measured is kept", ExitCode.SIGINT)
    except _Terminated:
        return _say("stopped by SIGTERM; what was measured is kept", ExitCode.SIGTERM)
    except BenchError as error:
        return _say(error.message, error.exit_code)
    except ProfileError as error:
        return _say(str(error), ExitCode.USAGE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.DONE)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _say(f"{where}{error.strerror or error}", ExitCode.FAILURE)


def _say(message: str, code: ExitCode) -> int:
    for line in message.splitlines():
        click.echo(f"enginebench: {line}", err=True)
    return int(code)


def _raise_terminated(signum: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated
