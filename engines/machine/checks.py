"""Checks whether the machine can run an engine, before a start and in `doctor`. No check starts anything."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from engines.base import Engine, EngineError
from engines.files import free_at
from engines.machine.vram import VramEstimate, estimate, largest_context
from engines.process.port import require_free_port
from engines.telemetry.gpu import cotenants, gpu_inventory, memory_mib, visible_gpus

MIN_FREE_DISK_MIB = 1024.0


class Status(StrEnum):
    """The result of a check. `unknown` does not stop a run."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check, as one line."""

    name: str
    status: Status
    detail: str


def checks(engine: Engine) -> Iterator[Check]:
    """All checks of one engine, in the order of a start."""
    yield attempt("files", engine.check, "model and binary are there")
    yield from machine_checks(engine)


def machine_checks(engine: Engine) -> Iterator[Check]:
    """The checks of a start besides its files."""
    if not engine.started_here:
        ready = engine.is_ready()
        text = f"{engine.base_url} answers" if ready else f"no server answers at {engine.base_url}"
        yield Check("server", Status.OK if ready else Status.FAIL, text)
        return
    config = engine.config
    yield attempt("port", lambda: require_free_port(config.host, config.port), f"{config.port} is free")
    try:
        yield from gpu_checks(engine)
    except EngineError as error:
        # For example the binary does not exist; the other checks are still reported.
        yield Check("gpu", Status.FAIL, str(error))
    yield threads_check(engine)
    yield memory_check(engine)


def require_gpu(engine: Engine) -> None:
    """Refuse a start on a card that is in use or too small.

    Raises:
        EngineError: the first failed check, with its remedy.
    """
    for check in gpu_checks(engine):
        if check.status is Status.FAIL:
            raise EngineError(f"{engine.config.name}: {check.detail}")


def gpu_checks(engine: Engine) -> Iterator[Check]:
    """Card, other processes on it, and whether weights and KV fit."""
    if not engine.on_gpu():
        yield Check("gpu", Status.OK, "not used by this engine")
        return
    cards = gpu_inventory()
    if not cards:
        yield Check("gpu", Status.UNKNOWN, "no NVIDIA driver answers (NVML): GPU checks and figures are not measured")
        return
    gpus = visible_gpus(engine.env())
    used = [card for index, card in enumerate(cards) if gpus is None or index in gpus]
    if not used:
        yield Check("gpu", Status.OK, "hidden from this engine (CUDA_VISIBLE_DEVICES)")
        return
    names = ", ".join(f"{card['name']} (compute {card['compute_capability']})" for card in used)
    yield Check("gpu", Status.OK, f"{names}, driver {used[0]['driver']}")
    yield cotenant_check(engine, gpus)
    yield vram_check(engine, memory_mib(gpus))


def cotenant_check(engine: Engine, gpus: list[int] | None) -> Check:
    """Fails if another process is on the card; `options.allow_cotenants` makes it a warning."""
    others = cotenants(gpus)
    if others is None:
        return Check("co-tenants", Status.UNKNOWN, "NVML does not report who else is on the GPU")
    if not others:
        return Check("co-tenants", Status.OK, "no other process on the GPU")
    text = f"on the GPU is also {', '.join(str(other) for other in others[:3])}"
    if engine.config.options.get("allow_cotenants"):
        return Check("co-tenants", Status.WARN, text)
    return Check("co-tenants", Status.FAIL, f"{text}; end it, or set options.allow_cotenants = true")


def vram_check(engine: Engine, memory: tuple[float, float] | None) -> Check:
    """Compares the estimate with the free memory; `memory` is (used, free) in MiB."""
    need = vram_estimate(engine)
    if need is None:
        return Check("vram", Status.UNKNOWN, "the model's files do not say how much GPU memory it needs")
    if memory is None:
        return Check("vram", Status.UNKNOWN, f"needs {need}; NVML does not report free memory")
    used, free = memory
    # The memory that an idle card reserves is part of the estimate's CUDA part, and already in `used`.
    need_now = need.total_mib - min(used, need.context_mib / 2)
    text = f"needs {need}, {free / 1024:.1f} GiB are free"
    if need_now <= free:
        return Check("vram", Status.OK, text)
    config = engine.config
    shape = engine.model_shape()
    assert shape is not None
    largest = largest_context(shape, free, slots=config.slots)
    fits = f"max_seq_len = {largest:,} would fit with {config.slots} slots" if largest else "no context would fit"
    return Check("vram", Status.FAIL, f"{text}; {fits}")


def vram_estimate(engine: Engine) -> VramEstimate | None:
    """The GPU memory that the engine will need, in parts. None: its model's files do not show it."""
    shape = engine.model_shape()
    if shape is None:
        return None
    return estimate(shape, slots=engine.config.slots, max_seq_len=engine.config.max_seq_len)


def threads_check(engine: Engine) -> Check:
    """On a CPU, the load generator needs a free core; otherwise llama.cpp's spinning barrier slows down drastically."""
    cores = len(os.sched_getaffinity(0))
    threads = engine.config.threads
    if _surely_on_gpu(engine) and gpu_inventory():
        return Check("threads", Status.OK, f"{cores} cores; the engine runs on the GPU")
    if threads is None:
        return Check("threads", Status.WARN, f"{cores} cores; set threads to at most {max(1, cores - 1)}")
    if threads >= cores and cores > 1:
        return Check("threads", Status.WARN, f"{threads} threads on {cores} cores leave none to the load generator")
    return Check("threads", Status.OK, f"{threads} of {cores} cores")


def memory_check(engine: Engine) -> Check:
    """Host memory against the size of the model's files."""
    free = psutil.virtual_memory().available
    model = engine.config.model
    try:
        files = [model] if model and model.is_file() else list(model.iterdir()) if model else []
        size = sum(file.stat().st_size for file in files if file.is_file())
    except OSError:
        size = 0
    text = f"{free / 2**30:.1f} GiB of host memory are free, the model's files have {size / 2**30:.1f}"
    # On a GPU the files are only mapped and read once.
    short = size > free and not _surely_on_gpu(engine)
    return Check("memory", Status.WARN if short else Status.OK, text)


def _surely_on_gpu(engine: Engine) -> bool:
    """Whether the engine will certainly use the GPU; if unknown, false (the check "gpu" reports it)."""
    try:
        return engine.on_gpu()
    except EngineError:
        return False


def disk_check(folder: Path) -> Check:
    """Check that there is space for captures and logs."""
    place, free = free_at(folder)
    status = Status.OK if free / 2**20 >= MIN_FREE_DISK_MIB else Status.WARN
    return Check("disk", status, f"{free / 2**30:.1f} GiB are free for {place}")


def attempt(name: str, action: Callable[[], object], good: str) -> Check:
    """OK with the text `good` if an action succeeds, else a failure with its EngineError's message."""
    try:
        action()
    except EngineError as error:
        return Check(name, Status.FAIL, str(error))
    return Check(name, Status.OK, good)
