"""`doctor`: checks whether a profile can run on this machine, and stops engines that a killed run left behind."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import click

from driver.errors import BenchError, ExitCode
from driver.options import shared
from driver.profile.read import EngineSection, Profile, ProfileError, load_profile, resolve_model
from driver.run.engine_setup import conversion_source, engine_config, from_here
from driver.run.prompts import load_workload
from driver.run.token_counts import open_tokenizer
from driver.shell_completion import ProfileArgument
from engines import EngineError, create
from engines.machine.checks import Check, Status, attempt, checks, disk_check, machine_checks
from engines.process import leftovers as leftovers
from engines.telemetry.gpu import gpu_inventory
from engines.weights.check import read_weights
from records.wording import count

MARKS = {Status.OK: "ok  ", Status.WARN: "warn", Status.FAIL: "FAIL", Status.UNKNOWN: "?   "}
PACKAGES = ("locust", "gevent", "pandas", "scipy", "orjson", "psutil", "pydantic", "pynvml", "datasets")


@click.command(name="doctor", short_help="Run all checks of a profile on this machine; stop stray engines.")
@click.argument("profile", required=False, type=ProfileArgument(path_type=Path))
@click.option("--clean", is_flag=True, help="Stop engines that a killed run left behind (by pid and start time).")
@shared.out
@shared.ca
def command(profile: Path | None, clean: bool, out: Path) -> int:
    """Check everything that PROFILE needs on this machine, without running it.

    Exit code 0 if no check fails, 4 if a run would be refused.
    """
    loaded = load_profile(profile) if profile is not None else None
    results = list(leftover_checks(clean=clean))
    if loaded is not None or not clean:
        results += host_checks(out)
    _show("machine", results)
    failed = _failed(results)
    if loaded is not None:
        rows = list(workload_checks(loaded))
        _show("workloads", rows)
        if loaded.tokenizer:
            results = [tokenizer_check(loaded.tokenizer)]
            _show("tokenizer", results)
            failed += _failed(results)
        failed += _failed(rows)
        for section in loaded.engines:
            rows = list(engine_checks(section, loaded))
            _show(f"engine {section.name} ({section.kind})", rows)
            failed += _failed(rows)
    if failed:
        raise BenchError(f"doctor: {failed} of the checks failed", ExitCode.FAILURE)
    return int(ExitCode.DONE)


def leftover_checks(*, clean: bool) -> Iterator[Check]:
    """Check for engines of earlier runs that still run; `clean` stops them. Engines of a running run are left alone."""
    strays = leftovers.find()
    if not strays:
        yield Check("leftovers", Status.OK, "no engine of an earlier run is running")
    for stray in strays:
        who = f"{stray.name}, pid {stray.pid}, {count(len(stray.processes), 'process', 'processes')}"
        if stray.driver_lives:
            yield Check("leftovers", Status.WARN, f"{who}: belongs to a run that is running now")
        elif not clean:
            yield Check("leftovers", Status.FAIL, f"{who}: left by a killed run; stop it with doctor --clean")
        elif leftovers.end(stray):
            yield Check("leftovers", Status.OK, f"{who}: stopped")
        else:
            yield Check("leftovers", Status.FAIL, f"{who}: could not be stopped")


def host_checks(out: Path) -> list[Check]:
    """Check disk, packages and GPUs."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    packages = (
        Check("packages", Status.FAIL, f"missing: {', '.join(missing)}; pip install -e .")
        if missing
        else Check("packages", Status.OK, "all are installed")
    )
    cards = gpu_inventory()
    names = ", ".join(f"{card['name']} (compute {card['compute_capability']})" for card in cards or [])
    gpu = (
        Check("gpus", Status.OK, names) if names else Check("gpus", Status.UNKNOWN, "NVML reports no GPU on this host")
    )
    return [disk_check(out), packages, gpu]


def workload_checks(profile: Profile) -> Iterator[Check]:
    """Check that every workload of the cells can be loaded."""
    for name in sorted({cell.workload for cell in profile.cells}):
        try:
            yield Check(name, Status.OK, count(load_workload(profile, name).measured, "prompt"))
        except BenchError as error:
            yield Check(name, Status.FAIL, error.message)


def tokenizer_check(path: str) -> Check:
    """Check that the profile's tokenizer can be read."""
    try:
        return Check(Path(path).name, Status.OK, f"{open_tokenizer(from_here(path)).get_vocab_size():,} tokens")
    except BenchError as error:
        return Check(Path(path).name, Status.FAIL, error.message)


def engine_checks(section: EngineSection, profile: Profile) -> Iterator[Check]:
    """Run the checks of an engine's start."""
    source = conversion_source(section.model)
    try:
        engine = create(engine_config(section, profile, source or resolve_model(section.model)))
    except (EngineError, ProfileError) as error:
        yield Check("configuration", Status.FAIL, str(error))
        return
    if source is None:
        yield from checks(engine)
        return
    # The GGUF may not exist yet, but its source does, which shows how much memory it will need.
    yield attempt("model", lambda: read_weights(source), f"{source} is complete; its BF16 GGUF is made when run")
    yield attempt("binary", engine.argv, "is there")
    yield from machine_checks(engine)


def _show(title: str, rows: list[Check]) -> None:
    click.echo(f"{title}:")
    for row in rows:
        click.echo(f"  {MARKS[row.status]} {row.name}: {row.detail}")


def _failed(rows: list[Check]) -> int:
    return sum(row.status is Status.FAIL for row in rows)
