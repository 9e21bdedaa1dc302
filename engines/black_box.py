"""Servers that are known only by their HTTP API: `remote` (at a URL) and `command` (started by a command line)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from engines.base import Engine, EngineError, ReadBack, sha256_text
from records.redaction import client_key

NOT_THERE = (404, 405, 501)
"""HTTP statuses that mean that a server does not have the path."""
_METRIC = re.compile(r"^(vllm|llamacpp|sglang|tgi)[:_]", re.MULTILINE)


class BlackBox(Engine):
    """Reads a server's settings from `/props`, `/v1/models`, `/version` and `/metrics` only."""

    def is_ready(self) -> bool:
        """Decided by `/health` if the server has it (llama.cpp: 503 while loading), else by `/v1/models`."""
        answer = self._fetch("/health")
        if answer is None:
            return False
        if answer.status_code in NOT_THERE:
            return self.answers("/v1/models")
        return answer.status_code == 200

    def auth(self) -> dict[str, str]:
        try:
            key = client_key()
        except ValueError as error:
            raise EngineError(f"{self.config.name}: {error}") from None
        return {"Authorization": f"Bearer {key}"} if key else {}

    def read_back(self) -> ReadBack:
        props = self.get("/props")
        settings = props.get("default_generation_settings")
        served = self.served_model()
        model, template = _text(served.get("id")), _text(props.get("chat_template"))
        version = self.get("/version").get("version")
        build, server = _text(props.get("build_info")), self.server()
        context = settings.get("n_ctx") if isinstance(settings, dict) else None
        return ReadBack(
            build=build or (" ".join(filter(None, [server, str(version)])) if version else None),
            # A server may use its model's path as a name; only the last part is stored.
            model=Path(model).name if model else None,
            context_per_slot=_number(context) or _number(served.get("max_model_len")),
            slots=_number(props.get("total_slots")),
            chat_template_sha256=sha256_text(template),
            extra={"server": server} if server else {},
        )

    def server(self) -> str | None:
        """The server program, from the owner of its model or the names of its metrics. None: unknown."""
        owner = self.served_model().get("owned_by")
        if owner in ("llamacpp", "vllm", "sglang"):
            return str(owner)
        metrics = self._fetch("/metrics")
        match = _METRIC.search(metrics.text) if metrics is not None and metrics.status_code == 200 else None
        return match[1] if match else None

    def request_extras(self, *, fixed_length: bool) -> dict[str, Any]:
        """The dialect of the server program: only some servers have fields that switch caches and thinking off."""
        extras = super().request_extras(fixed_length=fixed_length)
        thinking = {"chat_template_kwargs": {"enable_thinking": self.config.thinking}}
        match self.server():
            case "llamacpp":
                return {**extras, **thinking, "cache_prompt": self.config.cache, "min_p": 0.0, "repeat_penalty": 1.0}
            case "vllm" | "sglang":
                # Under load they send several tokens in one event; usage in every event gives their number.
                counts = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
                return {**extras, **thinking, **counts, "min_p": 0.0, "repetition_penalty": 1.0}
        return extras


def _text(value: Any) -> str | None:
    """The value if it is a text, else None."""
    return value if isinstance(value, str) else None


def _number(value: Any) -> int | None:
    """The value if it is an integer, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
