"""The engines: one file each, and their shared parts: process lifecycle, build, weights, GPU meter.

A new engine is one new file with a subclass of `Engine`; files in this folder are found automatically.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engines.base import SHARED_OPTIONS, Engine, EngineConfig, EngineError, ReadBack
from engines.probe import probe
from engines.process.lifecycle import RunningEngine, running
from engines.process.port import free_port
from engines.telemetry.gpu import gpu_inventory

__all__ = [
    "KINDS", "Engine", "EngineConfig", "EngineError", "ReadBack", "RunningEngine",
    "check_options", "create", "gpu_inventory", "probe", "running",
]  # fmt: skip


def _kinds() -> dict[str, type[Engine]]:
    """All engine classes in this folder's files, by kind; files with a leading underscore are skipped."""
    kinds: dict[str, type[Engine]] = {}
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
                kinds[value.kind] = value
    return kinds


KINDS = _kinds()
"""The engines that a profile may name: `kind` to class."""


_EXPECTED = {str: "text in quotes", int: "a whole number", float: "a number", bool: "true or false", list: "a list"}


def check_options(kind: str, options: Mapping[str, Any]) -> None:
    """Check the names of an engine's options, and the types of their values.

    Raises:
        ValueError: the message names the option and the expected value.
    """
    known = {**SHARED_OPTIONS, **KINDS[kind].own_options}
    for name, value in options.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
            raise ValueError(f"options.{name}: unknown; {hint}")
        wanted = known[name]
        fits = (int, float) if wanted is float else (list, tuple) if wanted is list else (wanted,)
        if not isinstance(value, fits) or (isinstance(value, bool) and wanted is not bool):
            raise ValueError(f"options.{name}: {value!r} was given; expected {_EXPECTED[wanted]}")


def create(config: EngineConfig) -> Engine:
    """Create the engine of a configuration; without a `port` it gets a free one.

    Raises:
        EngineError: its kind does not accept its options.
    """
    try:
        check_options(config.kind, config.options)
    except ValueError as error:
        raise EngineError(f"{config.name}: {error}") from None
    if config.port is None and KINDS[config.kind].started_here:
        config = replace(config, port=free_port(config.host))
    return KINDS[config.kind](config)
