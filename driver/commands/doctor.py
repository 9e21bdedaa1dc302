"""`doctor`: is this machine fit for a profile? And the backstop that ends engines which a killed run left behind."""

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


@click.command(name="doctor", short_help="Every check of a profile on this machine; end stray engines.")
@click.argument("profile", required=False, type=ProfileArgument(path_type=Path))
@click.option("--clean", is_flag=True, help="End engines that a killed run left behind (by pid and start time).")
@shared.out
def command(profile: Path | None, clean: bool, out: Path) -> int:
    """Check what PROFILE needs on this machine, without running anything.

    Exit code 0 where nothing fails, 4 where a run would be refused.
    """
    loaded = load_profile(profile) if profile is not None else None
    found = list(leftover_checks(clean=clean))
    if loaded is not None or not clean:
        found += host_checks(out)
    _show("machine", found)
    failed = _failed(found)
    if loaded is not None:
        rows = list(workload_checks(loaded))
        _show("workloads", rows)
        if loaded.tokenizer:
            found = [tokenizer_check(loaded.tokenizer)]
            _show("tokenizer", found)
            failed += _failed(found)
        failed += _failed(rows)
        for section in loaded.engines:
            rows = list(engine_checks(section, loaded))
            _show(f"engine {section.name} ({section.kind})", rows)
            failed += _failed(rows)
    if failed:
        raise BenchError(f"doctor: {failed} of the checks failed", ExitCode.FAILURE)
    return int(ExitCode.DONE)


def leftover_checks(*, clean: bool) -> Iterator[Check]:
    """Engines that are remembered and live; with `clean`, strays are ended. A run at work is left alone."""
    found = leftovers.find()
    if not found:
        yield Check("leftovers", Status.OK, "no engine of an earlier run lives")
    for stray in found:
        who = f"{stray.name}, pid {stray.pid}, {count(len(stray.processes), 'process', 'processes')}"
        if stray.driver_lives:
            yield Check("leftovers", Status.WARN, f"{who}: of a run that is at work now")
        elif not clean:
            yield Check("leftovers", Status.FAIL, f"{who}: left by a killed run; end it with doctor --clean")
        elif leftovers.end(stray):
            yield Check("leftovers", Status.OK, f"{who}: ended")
        else:
            yield Check("leftovers", Status.FAIL, f"{who}: could not be ended")


def host_checks(out: Path) -> list[Check]:
    """Disk, packages and cards."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    packages = (
        Check("packages", Status.FAIL, f"missing: {', '.join(missing)}; pip install -e .")
        if missing
        else Check("packages", Status.OK, "all are installed")
    )
    cards = gpu_inventory()
    told = ", ".join(f"{card['name']} (compute {card['compute_capability']})" for card in cards or [])
    gpu = (
        Check("gpus", Status.OK, told)
        if told
        else Check("gpus", Status.UNKNOWN, "NVML answers for no card on this host")
    )
    return [disk_check(out), packages, gpu]


def workload_checks(profile: Profile) -> Iterator[Check]:
    """Whether every workload that a cell asks for can be read."""
    for name in sorted({cell.workload for cell in profile.cells}):
        try:
            yield Check(name, Status.OK, count(load_workload(profile, name).measured, "prompt"))
        except BenchError as error:
            yield Check(name, Status.FAIL, error.message)


def tokenizer_check(path: str) -> Check:
    """Whether the profile's tokenizer can be read."""
    try:
        return Check(Path(path).name, Status.OK, f"{open_tokenizer(from_here(path)).get_vocab_size():,} tokens")
    except BenchError as error:
        return Check(Path(path).name, Status.FAIL, error.message)


def engine_checks(section: EngineSection, profile: Profile) -> Iterator[Check]:
    """The checks that a start would meet."""
    source = conversion_source(section.model)
    try:
        engine = create(engine_config(section, profile, source or resolve_model(section.model)))
    except (EngineError, ProfileError) as error:
        yield Check("configuration", Status.FAIL, str(error))
        return
    if source is None:
        yield from checks(engine)
        return
    # The GGUF may not be there yet; what it will be made of is, and tells what it will need.
    yield attempt("model", lambda: read_weights(source), f"{source} is whole; its BF16 GGUF is made when run")
    yield attempt("binary", engine.argv, "is there")
    yield from machine_checks(engine)


def _show(title: str, rows: list[Check]) -> None:
    click.echo(f"{title}:")
    for row in rows:
        click.echo(f"  {MARKS[row.status]} {row.name}: {row.told}")


def _failed(rows: list[Check]) -> int:
    return sum(row.status is Status.FAIL for row in rows)
