"""Ships the project to a host without network: packs it with its needs, sends it, runs there, fetches the run."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from driver.errors import BenchError, ExitCode, Stopped
from driver.profile.read import load_profile
from driver.run.run import new_run_id, require_run_id
from driver.ship.pack import collect
from driver.ship.part import Part, ShipOptions, write_part
from driver.ship.remote import Remote

Say = Callable[[str], None]
SETUP = "sh driver/ship/setup.sh"


@dataclass(frozen=True, slots=True)
class Target:
    """The target: a folder of a host reached by ssh, or (host None) a local tar file."""

    host: str | None
    path: str


def parse_target(text: str) -> Target:
    """Parse `HOST:DIR` or `FILE.tar`.

    Raises:
        BenchError: the text is neither (exit code 2).
    """
    if text.endswith(".tar"):
        return Target(None, text)
    host, colon, folder = text.partition(":")
    # ssh would read a host that starts with a dash as an option.
    if not colon or not folder or not re.fullmatch(r"[A-Za-z0-9_][\w.@-]*", host):
        raise BenchError(f"{text}: give HOST:DIR (reached by ssh) or FILE.tar", ExitCode.USAGE)
    return Target(host, folder)


def ship_to_file(path: Path, options: ShipOptions, say: Say) -> None:
    """Write all parts into one tar file, atomically.

    Raises:
        BenchError: a needed part is missing, or a secret would be shipped.
    """
    with TemporaryDirectory() as scratch:
        parts = collect(options, Path(scratch), say)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        try:
            with tarfile.open(partial, "w") as tar:
                for part in parts:
                    write_part(tar, part)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
        say(f"{path}: {path.stat().st_size / 2**20:.0f} MiB ({_names(parts)})")
    say(f"there: mkdir enginebench && tar xf {path.name} -C enginebench && cd enginebench && {SETUP}")


def ship_to_host(remote: Remote, options: ShipOptions, say: Say) -> None:
    """Send the parts that the host lacks, each through its own pipe, so that a broken transfer can be continued.

    Raises:
        BenchError: as `ship_to_file`, or ssh failed.
    """
    with TemporaryDirectory() as scratch:
        parts = collect(options, Path(scratch), say)
        there = remote.parts()
        for part in parts:
            if there.get(part.name) == part.digest:
                say(f"{part.name}: there already")
                continue
            say(f"{part.name}: sending {part.bytes / 2**20:.1f} MiB to {remote.host}")
            remote.send(part)
    say(f"installing there: {SETUP}")
    remote.call(SETUP, say)


def run_there(remote: Remote, profile: str, run_id: str | None, out: Path, say: Say) -> int:
    """Build and run a profile on the host, follow it, and fetch the run's folder.

    The run does not depend on the connection: if that breaks, the run continues. The same call with the same run id
    follows it again, or resumes an incomplete run.

    Returns:
        The exit code of `run` there.

    Raises:
        BenchError: ssh failed, or the run's folder could not be fetched.
    """
    loaded = load_profile(profile)
    run_id = run_id or new_run_id(loaded)
    require_run_id(run_id)
    again = f"the run goes on there; follow it with the same command and --run-id {run_id}"
    builds = any(engine.kind == "llama_cpp" and engine.binary in (None, "build") for engine in loaded.engines)
    say(f"run {run_id} on {remote.host}")
    try:
        code = remote.follow(run_id, remote.project_path(profile), build=builds, say=say)
    except Stopped as stop:
        stop.hint = again
        raise
    if code is None:
        raise BenchError(f"{remote.host}: the connection broke; {again}")
    folder = out / run_id
    out.mkdir(parents=True, exist_ok=True)
    remote.fetch(f"bench-out/{run_id}", out)
    for report in sorted(folder.glob("comparison-*")):
        say(f"report: {report}")
    return code


def _names(parts: Iterable[Part]) -> str:
    return ", ".join(f"{part.name} {part.bytes / 2**20:.1f} MiB" for part in parts)
