"""The address that requests go to."""

from __future__ import annotations

from dataclasses import dataclass

from records.endpoint import api_target, split_url


@dataclass(frozen=True, slots=True)
class Target:
    """An engine's host and the request target of its chat completions (path and query, percent-encoded)."""

    host: str
    port: int
    tls: bool
    path: str

    @classmethod
    def parse(cls, url: str) -> Target:
        """Take a base URL apart (see `records.endpoint.api_target`).

        Raises:
            ValueError: it is no http(s) URL.
        """
        parts = split_url(url)
        assert parts.hostname is not None
        tls = parts.scheme == "https"
        try:
            host = parts.hostname.encode("idna").decode("ascii")
        except UnicodeError:
            raise ValueError(f"{url!r}: the host name cannot be encoded (IDNA)") from None
        return cls(host, parts.port or (443 if tls else 80), tls, api_target(url))

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"
