"""The engines: one file each, and what they share: process life cycle, build, weights, GPU meter.

A new engine is one new file with a subclass of `Engine`, and one line in `KINDS`.
"""

from __future__ import annotations

from dataclasses import replace

from engines._base import Engine, EngineConfig, EngineError, ReadBack
from engines._gpu import gpu_inventory
from engines._port import free_port
from engines._probe import probe
from engines._process import RunningEngine, running
from engines.llama_cpp import LlamaCpp
from engines.llama_cpp_wheel import LlamaCppWheel
from engines.pacing import Pacing
from engines.remote import Remote
from engines.transformers_serve import TransformersServe
from engines.vllm import Vllm
from engines.xserv import Xserv

__all__ = [
    "KINDS", "Engine", "EngineConfig", "EngineError", "ReadBack", "RunningEngine",
    "create", "gpu_inventory", "probe", "running",
]  # fmt: skip

KINDS: dict[str, type[Engine]] = {
    "llama_cpp": LlamaCpp,
    "llama_cpp_wheel": LlamaCppWheel,
    "pacing": Pacing,
    "remote": Remote,
    "transformers_serve": TransformersServe,
    "vllm": Vllm,
    "xserv": Xserv,
}


def create(config: EngineConfig) -> Engine:
    """The engine that a configuration asks for; without a `port` it gets a free one."""
    if config.port is None and KINDS[config.kind].started_here:
        config = replace(config, port=free_port(config.host))
    return KINDS[config.kind](config)
