"""vllm.rs: a Rust + CUDA server without torch, from the wheel `vllm-rs`. Seen working: 0.8.12 on an H200."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from engines.base import EngineError, ReadBack
from engines.files import numbers_in
from engines.machine.cuda_code import cuda_code
from engines.python_tool import environment, require_tool
from engines.safetensors import SafetensorsEngine
from engines.telemetry.gpu import gpu_inventory

_LIBRARIES = ("libcublas.so.12", "libcublasLt.so.12", "libcurand.so.10")
"""Libraries that the wheel opens by name at run time but does not include."""
_NO_PENALTY = {"presence_penalty": 0.0, "frequency_penalty": 0.0, "repeat_penalty": 1.0}
_LIMITS = re.compile(r"scheduling limits \[(\d+) seqs x (\d+) tokens\]")
_GREEDY_TEMPERATURE = 1e-8
_CACHE_BYTES = 4 * 2**30
"""Size of the driver's cache for translated PTX; its default limit is too small."""

# Runs in the engine's own Python and environment. Finds the package without importing it: its import needs a GPU.
_ASK = (
    "import ctypes, importlib.metadata as m, importlib.util as u, json, sys\n"
    "def opens(name):\n"
    " try: ctypes.CDLL(name); return True\n"
    " except OSError: return False\n"
    "spec = u.find_spec('vllm_rs')\n"
    "try: version = m.version('vllm-rs')\n"
    "except m.PackageNotFoundError: version = None\n"
    "print(json.dumps({'folder': list(spec.submodule_search_locations)[0] if spec else None, 'version': version,"
    " 'missing': [n for n in sys.argv[1:] if not opens(n)]}))"
)


class VllmRs(SafetensorsEngine):
    """`binary` is the Python that has the wheel. The server starts a child process `runner` for each GPU."""

    kind: ClassVar[str] = "vllm_rs"
    reserves_memory: ClassVar[bool] = True
    # With an empty driver cache the first start captures graphs and translates PTX: up to 159 s on an H200. Kernels of
    # the prefill are translated only when the first request comes, the probe's, which then takes a minute.
    ready_timeout_s: ClassVar[float] = 900.0

    def check(self) -> None:
        """Reject a wheel that cannot run here.

        Raises:
            EngineError: there is no such Python, wheel or GPU code for this card, or a CUDA library is missing.
        """
        super().check()
        name, wheel = self.config.name, self.wheel
        if wheel["folder"] is None:
            raise EngineError(f"{name}: {self.python()} has no package vllm_rs; pip install vllm-rs==0.8.12 into it")
        if not self.on_gpu():
            raise EngineError(f'{name}: vllm_rs runs on a GPU only; remove options.device = "cpu"')
        self._require_gpu_code(Path(wheel["folder"]), wheel["version"])
        if wheel["missing"]:
            raise EngineError(
                f"{name}: {', '.join(wheel['missing'])} cannot be loaded; links of these names to the libraries of "
                "another CUDA release (libcublas.so.13) work, in a folder that the engine's env puts on LD_LIBRARY_PATH"
            )

    def _require_gpu_code(self, folder: Path, version: str | None) -> None:
        code = cuda_code(folder / "runner") or cuda_code(folder / "vllm_rs.abi3.so")
        for card in (gpu_inventory() or []) if code else []:
            capability = card["compute_capability"]
            if code and capability and not code.runs_on(int(capability.replace(".", ""))):
                raise EngineError(
                    f"{self.config.name}: the wheel vllm-rs {version or 'of unknown version'} holds {code}: it cannot "
                    f"run on {card['name']} (compute {capability}); wheels up to 0.8.12 hold PTX, which newer cards run"
                )

    def python(self) -> str:
        """The path of the Python that has the wheel; raises EngineError if there is none."""
        return require_tool(self.config.name, self.config.binary or "python3", "pip install vllm-rs==0.8.12")

    @cached_property
    def wheel(self) -> Mapping[str, Any]:
        """`folder` (None: not installed), `version` and `missing` libraries, as the engine's own Python finds them."""
        argv = [self.python(), "-c", _ASK, *_LIBRARIES]
        try:
            # Uses the engine's environment, because it may contain the paths of the wheel and the libraries.
            process = subprocess.run(
                argv, capture_output=True, text=True, timeout=60, check=True, env={**os.environ, **self.env()}
            )
            facts: dict[str, Any] = json.loads(process.stdout)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise EngineError(f"{self.config.name}: {argv[0]} cannot be asked for vllm_rs: {error}") from error
        return facts

    def argv(self) -> list[str]:
        config = self.config
        argv = [self.python(), "-m", "vllm_rs.server", "--w", str(config.model)]
        argv += ["--host", config.host, "--port", str(config.port), "--dtype", "bf16"]
        argv += ["--max-num-seqs", str(config.slots), "--max-model-len", str(config.max_seq_len)]
        # Up to 0.8 the cache is off by default; newer wheels have it on, with a switch to turn it off.
        if config.cache:
            argv += ["--prefix-cache"]
        elif _newer_than_0_8(self.wheel["version"]):
            argv += ["--disable-prefix-cache"]
        return [*argv, *config.args]

    def env(self) -> dict[str, str]:
        translated = {"CUDA_CACHE_MAXSIZE": str(_CACHE_BYTES)}
        return {**environment(self.config.threads), **translated, **super().env()}

    def is_ready(self) -> bool:
        """It has no `/health`; `/v1/models` answers once the model is loaded and its graphs are captured."""
        return self.answers("/v1/models")

    def read_back(self) -> ReadBack:
        version, served = self.wheel["version"], self.served_model()
        return ReadBack(
            build=f"vllm-rs {version}" if version else None,
            model=served.get("id"),
            context_per_slot=served.get("max_model_len"),
        )

    def read_log(self, told: ReadBack, log: Path) -> ReadBack:
        limits = numbers_in(log, _LIMITS)
        return replace(told, slots=limits[0], context_per_slot=limits[1]) if limits else told

    def sampling(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The sampling in a form that this engine obeys: its form of greedy decoding, and no neutral penalties.

        Up to 0.8.12, the server ignores a temperature of 0 or 1, and any temperature without top_k or top_p: it then
        samples at 0.7 and reports this only in its log. A tiny temperature with top_k 1 decodes greedily in all
        versions. A penalty of 0 takes a slower path than no penalty.
        """
        fields = {name: value for name, value in asked.items() if value != _NO_PENALTY.get(name)}
        if fields.get("temperature") == 0:
            fields |= {"temperature": _GREEDY_TEMPERATURE, "top_k": 1}
        return fields

    def request_extras(self, *, fixed_length: bool) -> dict[str, Any]:
        return {**super().request_extras(fixed_length=fixed_length), "thinking": self.config.thinking}


def _newer_than_0_8(version: str | None) -> bool:
    numbers = [int(part) for part in (version or "").split(".")[:2] if part.isdigit()]
    return numbers > [0, 8]
