"""What NVML says of the cards. Absent or failing NVML is "not known", never an error and never 0."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def nvml() -> Iterator[Any]:
    """The pynvml module, initialised; None where there is no driver."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pynvml
        except ImportError:
            yield None
            return
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def gpu_inventory() -> list[dict[str, Any]] | None:
    """Name, memory, compute capability, driver and power limit of every card; None without NVML."""
    with nvml() as library:
        if library is None:
            return None
        driver = _ask(library, library.nvmlSystemGetDriverVersion)
        found = []
        for index in range(library.nvmlDeviceGetCount()):
            handle = library.nvmlDeviceGetHandleByIndex(index)
            memory = _ask(library, library.nvmlDeviceGetMemoryInfo, handle)
            capability = _ask(library, library.nvmlDeviceGetCudaComputeCapability, handle)
            limit = _ask(library, library.nvmlDeviceGetEnforcedPowerLimit, handle)
            found.append(
                {
                    "name": _ask(library, library.nvmlDeviceGetName, handle),
                    "memory_mib": memory.total / 2**20 if memory else None,
                    "compute_capability": f"{capability[0]}.{capability[1]}" if capability else None,
                    "driver": driver,
                    "power_limit_w": limit / 1000 if limit else None,
                    "max_sm_mhz": _ask(library, library.nvmlDeviceGetMaxClockInfo, handle, library.NVML_CLOCK_SM),
                }
            )
        return found


def _ask(library: Any, function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except library.NVMLError:
        return None
