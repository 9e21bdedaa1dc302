"""Hugging Face's `transformers serve`: the reference implementation behind the same API. Seen working: v5.24."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from engines.base import ReadBack
from engines.python_tool import environment, package_versions, require_tool
from engines.safetensors import SafetensorsEngine

# Fields that the server does not know (it answers 422), and their neutral values, at which they can be left out.
NEUTRAL = {"min_p": 0.0, "repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
# Tokens of one block of its KV cache (its default), and of one forward pass (as llama.cpp's default -b).
PAGE_TOKENS = 256
MAX_BATCH_TOKENS = 2048


class TransformersServe(SafetensorsEngine):
    """`binary` is the `transformers` script of a separate environment. It batches what its KV cache holds."""

    kind: ClassVar[str] = "transformers_serve"
    own_options: ClassVar[Mapping[str, type]] = {"continuous_batching": bool}

    @property
    def model_name(self) -> str | None:
        # It refuses any name except the folder with which it was started.
        return str(self.config.model)

    def check(self) -> None:
        super().check()
        self.binary()

    def binary(self) -> str:
        """The path of the script; raises EngineError if it does not exist."""
        return require_tool(
            self.config.name, self.config.binary or "transformers", "pip install 'transformers[serving]'"
        )

    def argv(self) -> list[str]:
        config = self.config
        argv = [self.binary(), "serve", str(config.model), "--host", config.host, "--port", str(config.port)]
        argv += ["--device", str(config.options.get("device", "auto"))]
        if config.options.get("continuous_batching", True):
            # By default it takes 90% of the free memory, also of the host's when it runs on the CPU.
            blocks = config.slots * -(-config.max_seq_len // PAGE_TOKENS)
            argv += ["--continuous-batching", "--cb-num-blocks", str(blocks)]
            argv += ["--cb-max-batch-tokens", str(MAX_BATCH_TOKENS)]
        argv += ["--reasoning", "on" if config.thinking else "off"]
        return [*argv, *config.args]

    def env(self) -> dict[str, str]:
        return {**environment(self.config.threads), **super().env()}

    def read_back(self) -> ReadBack:
        versions = package_versions(self.binary(), "transformers", "torch")
        model = self.served_model().get("id")
        return ReadBack(
            build=f"transformers {versions['transformers']}" if versions.get("transformers") else None,
            model=Path(model).name if model else None,
            extra={"torch": versions.get("torch")},
        )

    def sampling(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        greedy = asked.get("temperature") == 0
        kept = {name: value for name, value in asked.items() if NEUTRAL.get(name) != value}
        if greedy:
            # Other samplers have no effect on greedy decoding. Anything else is sent: the server refuses it.
            for name in ("top_k", "min_p"):
                kept.pop(name, None)
        return kept

    def request_extras(self, *, fixed_length: bool) -> dict[str, Any]:
        extras: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": self.config.thinking}}
        if fixed_length:
            # It has no ignore_eos; an end token that never occurs has the same effect. Sampling is the first request's
            # with continuous batching, so that only greedy decoding can be asked for here.
            extras["generation_config"] = json.dumps({"eos_token_id": -1, "do_sample": False})
        return extras
