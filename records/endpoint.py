"""The URLs of an engine and the certificates to trust: one rule for the load, the probe and the read-back."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

CHAT, COMPLETIONS = "chat", "completions"
ENDPOINTS = {CHAT: "chat/completions", COMPLETIONS: "completions"}
"""The endpoints that can be measured, and the API resource of each."""
MAX_TOKENS_FIELDS = ("max_tokens", "max_completion_tokens")
"""How servers call the most tokens of an answer. OpenAI's newer models refuse the first."""
_VERSION = re.compile(r"/v\d[^/]*$")
_PATH_SAFE = "/%:@!$&'()*+,;=~-._"
_QUERY_SAFE = _PATH_SAFE + "?"


def split_url(url: str) -> SplitResult:
    """Take a base URL apart.

    Raises:
        ValueError: it is no http(s) URL with a host.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r}: a URL such as http://127.0.0.1:8080 was expected")
    return parts


def request_body(
    messages: Sequence[Any],
    endpoint: str,
    *,
    model: str | None,
    max_tokens_field: str,
    max_tokens: int,
    fields: Mapping[str, Any],
) -> dict[str, Any]:
    """The JSON body of a streamed request, as the load and the probe send it.

    `/v1/completions` gets the contents of the messages as one prompt, joined by blank lines: no chat template applies.

    Args:
        messages: {role, content} each.
        endpoint: a key of `ENDPOINTS`.
        model: the model's name; without one `default` is sent.
        max_tokens_field: one of `MAX_TOKENS_FIELDS`.
        max_tokens: the most tokens that the answer may have.
        fields: more fields, which replace those of the same name. A field set to None is left out: some servers refuse
            what they do not know.
    """
    if endpoint == CHAT:
        asked: dict[str, Any] = {"messages": list(messages)}
    else:
        asked = {"prompt": "\n\n".join(str(message["content"]) for message in messages)}
    body = {
        "model": model or "default",
        **asked,
        "stream": True,
        "stream_options": {"include_usage": True},
        max_tokens_field: max_tokens,
        **fields,
    }
    return {name: value for name, value in body.items() if value is not None}


def api_target(base: str, resource: str = ENDPOINTS[CHAT]) -> str:
    """Path and query, percent-encoded, of an API resource below a base URL.

    The base may end in a version (`/v1`, `/api/v3`), which is kept; without one `/v1` is added. It may also be the
    whole URL of an endpoint. A query of the base is kept.
    """
    parts = split_url(base)
    path = without_endpoint(parts.path)
    if not _VERSION.search(path):
        path += "/v1"
    return _encoded(f"{path}/{resource}", parts.query)


def server_url(base: str, path: str) -> str:
    """The URL of a path beside the API, such as `/health`, or of an API path (`/v1/...`)."""
    parts = split_url(base)
    root = f"{parts.scheme}://{parts.netloc}"
    if path.startswith("/v1/"):
        return root + api_target(base, path.removeprefix("/v1/"))
    prefix = without_endpoint(parts.path).removesuffix("/v1")
    return root + _encoded(prefix + path, parts.query)


@dataclass(frozen=True, slots=True)
class Target:
    """An engine's host and the request target of one of its endpoints (path and query, percent-encoded)."""

    host: str
    port: int
    tls: bool
    path: str

    @classmethod
    def parse(cls, url: str, endpoint: str = CHAT) -> Target:
        """Take a base URL apart (see `api_target`); `endpoint` is a key of `ENDPOINTS`.

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
        return cls(host, parts.port or (443 if tls else 80), tls, api_target(url, ENDPOINTS[endpoint]))

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


def without_endpoint(path: str) -> str:
    """A path or URL without the API resource that it may end in."""
    path = path.rstrip("/")
    for resource in ENDPOINTS.values():
        path = path.removesuffix(f"/{resource}")
    return path


def _encoded(path: str, query: str) -> str:
    return quote(path, safe=_PATH_SAFE) + (f"?{quote(query, safe=_QUERY_SAFE)}" if query else "")


def trusted_certificates() -> str | None:
    """The file or folder of certificates that OpenSSL trusts: `SSL_CERT_FILE`, `SSL_CERT_DIR` or the system's."""
    paths = ssl.get_default_verify_paths()
    return paths.cafile or paths.capath
