"""Any server that speaks the API, at a URL: nothing is started."""

from __future__ import annotations

from typing import ClassVar

from engines.black_box import BlackBox
from records.endpoint import without_endpoint
from records.redaction import shown_url


class Remote(BlackBox):
    """A server at a base URL. The API key comes from the environment and is only sent in the header."""

    kind: ClassVar[str] = "remote"
    started_here: ClassVar[bool] = False
    ready_timeout_s: ClassVar[float] = 10.0
    """Short, because the server either runs already or its URL is wrong."""

    @property
    def base_url(self) -> str:
        assert self.config.url is not None
        # User and password in the URL are not sent by the load, and must not be stored.
        return without_endpoint(shown_url(self.config.url)).removesuffix("/v1")

    def check(self) -> None:
        self.headers()

    def argv(self) -> list[str]:
        return []
