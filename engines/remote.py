"""Any server that speaks the API, at a URL: nothing is started, and nothing is believed that it does not tell."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from engines.base import Engine, EngineError, ReadBack, sha256_text
from records.redaction import client_key, shown_url


class Remote(Engine):
    """A base URL. The API key comes from the environment and goes nowhere but into the header."""

    kind: ClassVar[str] = "remote"
    started_here: ClassVar[bool] = False
    ready_timeout_s: ClassVar[float] = 10.0
    """It is up already, or its URL is wrong."""

    @property
    def base_url(self) -> str:
        assert self.config.url is not None
        # A user and password in it are sent by no request of the load, and must not be written down.
        return shown_url(self.config.url).rstrip("/").removesuffix("/v1")

    def check(self) -> None:
        self.auth()

    def argv(self) -> list[str]:
        return []

    def is_ready(self) -> bool:
        return self.answers("/health") or self.answers("/v1/models")

    def auth(self) -> dict[str, str]:
        try:
            key = client_key()
        except ValueError as error:
            raise EngineError(f"{self.config.name}: {error}") from None
        return {"Authorization": f"Bearer {key}"} if key else {}

    def read_back(self) -> ReadBack:
        props = self.get("/props")
        settings = props.get("default_generation_settings") or {}
        served = self.served_model()
        model = served.get("id")
        context = settings.get("n_ctx") or served.get("max_model_len")
        version = self.get("/version").get("version")
        return ReadBack(
            build=props.get("build_info") or version,
            # A server may use its model's path as a name; where it lies is nobody's business.
            model=Path(model).name if model else None,
            context_per_slot=context,
            slots=props.get("total_slots"),
            chat_template_sha256=sha256_text(props.get("chat_template")),
        )
