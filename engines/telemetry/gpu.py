"""Reads GPU figures by NVML. If NVML is absent or fails, the figures are unknown, never an error and never 0."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil

# The bits of nvmlDeviceGetCurrentClocksEventReasons, with the names that scoring uses.
THROTTLE_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}


@dataclass(frozen=True, slots=True)
class CoTenant:
    """A process that holds memory on a card; `name` and `memory_mib` are None where they can't be seen."""

    gpu: int
    pid: int
    name: str | None
    memory_mib: float | None

    def __str__(self) -> str:
        memory = "" if self.memory_mib is None else f", {self.memory_mib:,.0f} MiB"
        return f"pid {self.pid} ({self.name or 'not visible from here'}{memory})"


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
        driver = ask(library, library.nvmlSystemGetDriverVersion)
        cards = []
        for handle in handles(library).values():
            memory = ask(library, library.nvmlDeviceGetMemoryInfo, handle)
            capability = ask(library, library.nvmlDeviceGetCudaComputeCapability, handle)
            limit = ask(library, library.nvmlDeviceGetEnforcedPowerLimit, handle)
            cards.append(
                {
                    "name": ask(library, library.nvmlDeviceGetName, handle),
                    "memory_mib": memory.total / 2**20 if memory else None,
                    "compute_capability": f"{capability[0]}.{capability[1]}" if capability else None,
                    "driver": driver,
                    "vbios": ask(library, library.nvmlDeviceGetVbiosVersion, handle),
                    "power_limit_w": limit / 1000 if limit else None,
                    "max_sm_mhz": ask(library, library.nvmlDeviceGetMaxClockInfo, handle, library.NVML_CLOCK_SM),
                }
            )
        return cards


def visible_gpus(environment: Mapping[str, str]) -> list[int] | None:
    """The cards that an engine with these variables will use; None means all of them.

    A `CUDA_VISIBLE_DEVICES` by UUID counts as all cards: too many are shown rather than too few.
    """
    variable = environment.get("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES"))
    if variable is None:
        return None
    words = [word.strip() for word in variable.split(",") if word.strip()]
    if any(not word.lstrip("-").isdigit() for word in words):
        return None
    indices = []
    for word in words:
        # As CUDA does: the first invalid number ends the list, so -1 hides every card.
        if int(word) < 0:
            break
        indices.append(int(word))
    return indices


def memory_mib(gpus: list[int] | None = None) -> tuple[float, float] | None:
    """(used, free) MiB, summed over these cards; None if NVML does not report it, or there is no card."""
    with nvml() as library:
        if library is None:
            return None
        readings = [ask(library, library.nvmlDeviceGetMemoryInfo, handle) for handle in handles(library, gpus).values()]
        if not readings or any(memory is None for memory in readings):
            return None
        return sum(memory.used for memory in readings) / 2**20, sum(memory.free for memory in readings) / 2**20


def cotenants(gpus: list[int] | None = None, *, ours: frozenset[int] = frozenset()) -> list[CoTenant] | None:
    """Processes with a compute context on these cards, without `ours`; None if NVML does not report them.

    In a container NVML may give pids of the host's namespace, or none: an empty list then proves nothing.
    """
    with nvml() as library:
        if library is None:
            return None
        others = []
        cards = handles(library, gpus)
        for index, handle in cards.items():
            running = ask(library, library.nvmlDeviceGetComputeRunningProcesses, handle)
            if running is None:
                return None
            for process in running:
                if process.pid not in ours:
                    used = process.usedGpuMemory
                    others.append(CoTenant(index, process.pid, _name(process.pid), used / 2**20 if used else None))
        return others if cards else None


def sample(library: Any, index: int, handle: Any) -> dict[str, Any]:
    """One reading of one card; unreported values are None. `energy_mj` is a counter since the driver was loaded."""
    memory = ask(library, library.nvmlDeviceGetMemoryInfo, handle)
    power = ask(library, library.nvmlDeviceGetPowerUsage, handle)
    util = ask(library, library.nvmlDeviceGetUtilizationRates, handle)
    reasons = ask(library, library.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    return {
        "index": index,
        "power_w": None if power is None else power / 1000,
        "energy_mj": ask(library, library.nvmlDeviceGetTotalEnergyConsumption, handle),
        "util_percent": None if util is None else util.gpu,
        "memory_used_mib": None if memory is None else round(memory.used / 2**20, 1),
        "sm_mhz": ask(library, library.nvmlDeviceGetClockInfo, handle, library.NVML_CLOCK_SM),
        "memory_mhz": ask(library, library.nvmlDeviceGetClockInfo, handle, library.NVML_CLOCK_MEM),
        "temperature_c": ask(library, library.nvmlDeviceGetTemperature, handle, library.NVML_TEMPERATURE_GPU),
        "throttle": None if reasons is None else throttle_words(reasons),
    }


def throttle_words(bits: int) -> list[str]:
    """The names of the reasons in NVML's bit mask; a bit of a newer driver is shown by its value."""
    known = [word for bit, word in THROTTLE_REASONS.items() if bits & bit]
    unknown = bits & ~sum(THROTTLE_REASONS)
    return [*known, hex(unknown)] if unknown else known


def handles(library: Any, gpus: list[int] | None = None) -> dict[int, Any]:
    """Handles of these cards by their number (all by default); none where the count can't be had."""
    count = ask(library, library.nvmlDeviceGetCount) or 0
    wanted = range(count) if gpus is None else [index for index in gpus if index < count]
    by_index = {index: ask(library, library.nvmlDeviceGetHandleByIndex, index) for index in wanted}
    return {index: handle for index, handle in by_index.items() if handle is not None}


def ask(library: Any, function: Any, *arguments: Any) -> Any:
    """Call NVML; None where this card or driver does not answer."""
    try:
        return function(*arguments)
    except library.NVMLError:
        return None


def _name(pid: int) -> str | None:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return None
