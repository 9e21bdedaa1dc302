"""llama.cpp's HTTP server from the PyPI wheel `xllamacpp`, in its own process: nothing to build."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from engines.base import EngineError
from engines.llama_cpp import LlamaCpp


class LlamaCppWheel(LlamaCpp):
    """The same server, options and read-back as `llama_cpp`; only its origin differs."""

    kind: ClassVar[str] = "llama_cpp_wheel"
    own_options: ClassVar[Mapping[str, type]] = {"converter_python": str}

    def binary(self) -> str:
        """The Python that has the wheel; raises EngineError if it is missing."""
        if importlib.util.find_spec("xllamacpp") is None:
            raise EngineError(f"{self.config.name}: package xllamacpp is missing; pip install 'enginebench[demo]'")
        return sys.executable

    def argv(self) -> list[str]:
        config = self.config
        argv = [self.binary(), "-m", "engines.process.wheel_server", "--model", str(config.model)]
        argv += ["--host", config.host, "--port", str(config.port), "--parallel", str(config.slots)]
        argv += ["--ctx-size", str(config.max_seq_len * config.slots)]
        argv += ["--threads", str(config.threads)] if config.threads else []
        argv += ["--alias", config.model_name] if config.model_name else []
        argv += ["--cache"] if config.cache else []
        return [*argv, *config.args]

    def on_gpu(self) -> bool:
        # The wheel is built for CPUs only.
        return False

    def provenance(self) -> dict[str, Any] | None:
        return {"package": "xllamacpp", "version": importlib.metadata.version("xllamacpp")}

    def build_name(self, props: dict[str, Any]) -> str | None:
        # /props reports only "b0-unknown"; the wheel's version ends with its llama.cpp build.
        version = importlib.metadata.version("xllamacpp")
        return f"b{version.rpartition('.')[2]} (xllamacpp {version})"
