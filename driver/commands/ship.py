"""`ship HOST:DIR | FILE.tar`: ships the project with everything it needs to a host without network."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path

import click

from driver.options import shared
from driver.run.progress import Display
from driver.ship.part import ShipOptions
from driver.ship.remote import Remote
from driver.ship.ship import parse_target, run_there, ship_to_file, ship_to_host


@click.command(name="ship", short_help="Ship the project to a host without network, and run there.")
@click.argument("target", metavar="HOST:DIR|FILE.tar")
@click.option("--run", "profile", metavar="PROFILE", help="Then build and run PROFILE there, and fetch the run.")
@click.option("--run-id", help="Name of the run; the same name follows or finishes it.")
@shared.out
@click.option("--source", type=click.Path(path_type=Path), help="The llama.cpp tree or .tar.gz to ship.")
@click.option("--cpu", is_flag=True, help="A llama.cpp tree without CUDA and converter is enough.")
@click.option("--demo", is_flag=True, help="Ship the demo's engine and small model too (about 130 MB).")
@click.option("--no-wheels", is_flag=True, help="Leave out the Python packages: the host has them, or an index.")
@click.option("--target-python", metavar="X.Y", help="Python version there; default: HOST's, or as here.")
@click.option("--platform", multiple=True, help="Wheel platform there, such as manylinux_2_28_x86_64; several allowed.")
@click.option("--ssh", default="ssh", show_default=True, help='The ssh command, such as "ssh -p 2222 -i KEY".')
def command(
    target: str,
    profile: str | None,
    run_id: str | None,
    out: Path,
    source: Path | None,
    cpu: bool,
    demo: bool,
    no_wheels: bool,
    target_python: str | None,
    platform: tuple[str, ...],
    ssh: str,
) -> int:
    """Pack tracked files, llama.cpp's source, problem sets and wheels; the same commands then work there offline.

    Secrets are not shipped. Run the same command again to continue an interrupted transfer or run.
    """
    where = parse_target(target)
    options = ShipOptions(source, cpu, not no_wheels, demo, target_python, platform)
    say = Display().say
    if where.host is None:
        if profile:
            raise click.UsageError("--run needs HOST:DIR")
        ship_to_file(Path(where.path), options, say)
        return 0
    remote = Remote(where.host, where.path, tuple(shlex.split(ssh)))
    if options.wheels and target_python is None:
        there = remote.python()
        # Set only if it differs: pip then decides by tags only, no longer by this interpreter.
        if there != f"{sys.version_info.major}.{sys.version_info.minor}" or platform:
            options = replace(options, python=there)
    ship_to_host(remote, options, say)
    return run_there(remote, profile, run_id, out, say) if profile else 0
