"""Builds the command lines that repeat a run. They work when pasted in the folder where the run was started."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from driver.profile.read import PROFILES
from driver.run.plan import DEFAULT_OUT
from records import RunFolder

_PROGRAMS = ("enginebench", "run_bench.py")


def run_command(profile: Path, out: Path, *more: str) -> str:
    """`enginebench run PROFILE`, with `--out` where the run is not in the default folder."""
    out_option = [] if out == DEFAULT_OUT else ["--out", from_here(out)]
    return shlex.join([program(), "run", profile_argument(profile), *more, *out_option])


def compare_command(folder: RunFolder) -> str:
    """`enginebench compare RUN`: by the run's name in the default folder, else by its path."""
    run = folder.run_id if folder.path.parent == DEFAULT_OUT else from_here(folder.path)
    return shlex.join([program(), "compare", run])


def program() -> str:
    """The name by which the shell finds this program: `enginebench`, else its path, such as `.venv/bin/enginebench`."""
    called = Path(sys.argv[0])
    if called.name not in _PROGRAMS or not called.is_file():
        return _PROGRAMS[0]
    on_path = shutil.which(called.name)
    if on_path and Path(on_path).samefile(called):
        return called.name
    path = from_here(called)
    return path if os.sep in path else f".{os.sep}{path}"


def profile_argument(profile: Path) -> str:
    """A profile for `enginebench run`: the bare name of an included profile, else its path."""
    return profile.stem if profile.resolve().parent == PROFILES else from_here(profile)


def from_here(path: Path) -> str:
    """The path relative to the current folder if it is below it, else absolute. Links such as .venv/bin/python stay."""
    whole = path.absolute()
    return str(whole.relative_to(Path.cwd())) if whole.is_relative_to(Path.cwd()) else str(whole)
