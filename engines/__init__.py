"""The engines: one file each, and what they share: process life cycle, build, weights, GPU meter.

A new engine is one new file with a subclass of `Engine`: it is found by being here.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace

from engines.base import SHARED_OPTIONS, Engine, EngineConfig, EngineError, ReadBack
from engines.probe import probe
from engines.process.lifecycle import RunningEngine, running
from engines.process.port import free_port
from engines.telemetry.gpu import gpu_inventory

__all__ = [
    "KINDS", "Engine", "EngineConfig", "EngineError", "ReadBack", "RunningEngine",
    "create", "gpu_inventory", "probe", "running",
]  # fmt: skip


def _kinds() -> dict[str, type[Engine]]:
    """Every engine that a file here defines, by its kind; a leading underscore marks what is shared."""
    found: dict[str, type[Engine]] = {}
    for file in pkgutil.iter_modules(__path__, prefix=f"{__name__}."):
        if file.ispkg:
            continue
        for value in vars(importlib.import_module(file.name)).values():
            if (
                isinstance(value, type)
                and issubclass(value, Engine)
                and value.__module__ == file.name
                and "kind" in vars(value)
            ):
                found[value.kind] = value
    return found


KINDS = _kinds()
"""The engines that a profile may name: `kind` to class."""


def create(config: EngineConfig) -> Engine:
    """The engine that a configuration asks for; without a `port` it gets a free one.

    Raises:
        EngineError: it has an option that its kind does not know.
    """
    known = KINDS[config.kind].own_options | SHARED_OPTIONS
    if unknown := config.options.keys() - known:
        raise EngineError(f"{config.name}: options.{min(unknown)}: unknown; known are {', '.join(sorted(known))}")
    if config.port is None and KINDS[config.kind].started_here:
        config = replace(config, port=free_port(config.host))
    return KINDS[config.kind](config)
