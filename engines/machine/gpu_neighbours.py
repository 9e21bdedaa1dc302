"""Observes the GPU of one engine process: memory before, during and after it, and other processes."""

from __future__ import annotations

import time
from typing import Any

import psutil

from engines.base import Engine
from engines.telemetry.gpu import CoTenant, cotenants, memory_mib, visible_gpus

VRAM_BACK_S = 10.0
VRAM_TOLERANCE_MIB = 64.0


class Surroundings:
    """Readings of the engine's GPUs, in MiB. None: not started here, or unknown to NVML."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.vram_before_mib: float | None = None
        self.vram_ready_mib: float | None = None
        self.vram_after_mib: float | None = None
        self.cotenants: list[CoTenant] | None = None

    def before(self) -> None:
        """Take the reading before the engine starts."""
        self.vram_before_mib = self._vram()
        self.cotenants = cotenants(self._gpus())

    def ready(self) -> None:
        """Take the reading once the engine accepts requests."""
        self.vram_ready_mib = self._vram()

    def ending(self, ours: frozenset[int]) -> None:
        """Before the engine is stopped: record other processes that came onto the GPU."""
        if self.cotenants is None:
            return
        known = {other.pid for other in self.cotenants}
        for other in cotenants(self._gpus(), ours=ours) or []:
            # In a container NVML may give the host's pids: a pid that is not visible here may be the engine itself.
            if other.pid not in known and psutil.pid_exists(other.pid):
                self.cotenants.append(other)

    def after(self) -> None:
        """After the engine's end: record the memory once it is back to its start, at the latest after VRAM_BACK_S."""
        deadline = time.monotonic() + VRAM_BACK_S
        while True:
            self.vram_after_mib = now = self._vram()
            if now is None or self.vram_before_mib is None or now <= self.vram_before_mib + VRAM_TOLERANCE_MIB:
                return
            if time.monotonic() > deadline:
                return
            time.sleep(0.2)

    def to_dict(self) -> dict[str, Any]:
        return {
            "vram_before_mib": self.vram_before_mib,
            "vram_ready_mib": self.vram_ready_mib,
            "vram_after_mib": self.vram_after_mib,
            "cotenants": None if self.cotenants is None else [str(other) for other in self.cotenants],
        }

    def _gpus(self) -> list[int] | None:
        return visible_gpus(self._engine.env())

    def _vram(self) -> float | None:
        memory = memory_mib(self._gpus())
        return None if memory is None else round(memory[0], 1)
