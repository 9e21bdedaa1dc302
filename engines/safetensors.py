"""Base of engines that load a Hugging Face folder directly: checks the folder, estimates its GPU memory."""

from __future__ import annotations

from pathlib import Path

from engines.base import Engine, EngineError
from engines.machine.vram import ModelShape, shape_of_safetensors


class SafetensorsEngine(Engine):
    """An engine whose `model` is a folder with config.json and safetensors."""

    def check(self) -> None:
        _require_folder(self.config.name, self.config.model)

    def model_shape(self) -> ModelShape | None:
        return shape_of_safetensors(self.config.model) if self.config.model else None


def _require_folder(name: str, model: Path | None) -> None:
    """Check a Hugging Face folder before the start.

    Raises:
        EngineError: no folder is given, or it is missing or has no config.json or safetensors.
    """
    if model is None:
        raise EngineError(f"{name}: needs a `model`, a Hugging Face folder with safetensors")
    if not model.is_dir():
        raise EngineError(f"{name}: model {model}: no such folder; give a Hugging Face folder with safetensors")
    for pattern in ("config.json", "*.safetensors"):
        if not any(model.glob(pattern)):
            raise EngineError(f"{name}: model {model}: holds no {pattern}; give a Hugging Face folder with safetensors")
