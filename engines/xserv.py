"""xserv: a Rust + CUDA server for a Hugging Face safetensors folder. Thinking is off in it and can't be switched on."""

from __future__ import annotations

import re
import shutil
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from engines.base import EngineError, ReadBack
from engines.safetensors import SafetensorsEngine

# Versions differ in how the model folder is passed; `options.argv` replaces this, with the same fields.
ARGV = (
    "{binary}",
    "{model}",
    "--port",
    "{port}",
    "--max-seq-len",
    "{max_seq_len}",
    "--max-batch",
    "{slots}",
    "--swap-space-gb",
    "{swap_space_gb}",
)
SWAP_SPACE_GB = 8
SWAP_LINE = re.compile(r"\bswap(ped|ping)?[ _-]?(out|in)\b", re.IGNORECASE)
BUSY_LINE = re.compile(r"engine is busy", re.IGNORECASE)


class Xserv(SafetensorsEngine):
    """`xserv-server`. It ignores unknown request fields, so only the probe shows what it obeys."""

    kind: ClassVar[str] = "xserv"
    own_options: ClassVar[Mapping[str, type]] = {"argv": list, "swap_space_gb": float, "tp": int, "max_kv_blocks": int}

    def check(self) -> None:
        super().check()
        if self.config.thinking:
            raise EngineError(f"{self.config.name}: thinking is hard-coded off in xserv; set thinking = false")
        self.argv()

    def argv(self) -> list[str]:
        config, options = self.config, self.config.options
        fields = {
            "binary": self.binary(),
            "model": config.model,
            "host": config.host,
            "port": config.port,
            "max_seq_len": config.max_seq_len,
            "slots": config.slots,
            "swap_space_gb": options.get("swap_space_gb", SWAP_SPACE_GB),
            "tp": options.get("tp", 1),
        }
        argv = [self._filled(str(word), fields) for word in options.get("argv", ARGV)]
        if "tp" in options and "argv" not in options:
            argv += ["--tp", str(options["tp"])]
        return [*argv, *config.args]

    def _filled(self, word: str, fields: dict[str, Any]) -> str:
        try:
            return string.Formatter().vformat(word, (), fields)
        except (KeyError, IndexError, ValueError):
            raise EngineError(
                f"{self.config.name}: options.argv: {word!r} has no field of that name;"
                f" known are {', '.join('{' + field + '}' for field in fields)}"
            ) from None

    def binary(self) -> str:
        """The path of the server.

        Raises:
            EngineError: the binary does not exist.
        """
        wanted = self.config.binary or "xserv-server"
        path = shutil.which(str(Path(wanted).expanduser()))
        if path is None:
            raise EngineError(
                f"{self.config.name}: no executable {wanted!r}; build xserv, and set `binary` to its path"
            )
        return path

    def env(self) -> dict[str, str]:
        blocks = self.config.options.get("max_kv_blocks")
        return {**super().env(), **({"XSERV_MAX_KV_BLOCKS": str(blocks)} if blocks is not None else {})}

    def read_back(self) -> ReadBack:
        model = self.served_model().get("id")
        # The server reports neither context nor slots nor build: they are unknown.
        return ReadBack(model=Path(model).name if model else None)

    def log_findings(self, log: Path) -> dict[str, Any]:
        """{swap_events, busy_refusals}: counts of log lines that report swapped KV blocks, and refusals."""
        swaps = busy = 0
        try:
            with log.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    swaps += bool(SWAP_LINE.search(line))
                    busy += bool(BUSY_LINE.search(line))
        except OSError:
            return {"swap_events": None, "busy_refusals": None}
        return {"swap_events": swaps, "busy_refusals": busy}
