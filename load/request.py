"""Builds the bytes of a request: HTTP head and JSON body, for either endpoint of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from load.options import DEFAULT_MAX_TOKENS
from records.endpoint import Target, request_body
from records.headers import replacing
from workloads import Prompt


class RequestWriter:
    """Writes the requests of one test. The parts that all requests share are written once per test."""

    def __init__(
        self,
        options: Any,
        target: Target,
        *,
        extras: Mapping[str, Any],
        headers: Mapping[str, str],
        key: str | None,
    ) -> None:
        """Prepare the head.

        Args:
            options: the parsed options.
            target: the target of the requests.
            extras: fields merged into each body last; null leaves a field out.
            headers: further headers; they replace headers of the same name.
            key: the API key for the Authorization header.
        """
        self._options, self._extras = options, extras
        lines = {
            "Host": target.authority,
            "User-Agent": "enginebench",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            **({"Authorization": f"Bearer {key}"} if key else {}),
        }
        lines = replacing(lines, headers)
        head = f"POST {target.path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._head = head.encode("latin-1") + b"Content-Length: "

    def write(self, prompt: Prompt) -> tuple[bytes, int | None]:
        """The bytes of one request, and the largest number of tokens that it asks for."""
        options = self._options
        fixed_length = {"ignore_eos": True} if options.fixed_length else {}
        body = request_body(
            prompt.messages,
            options.endpoint,
            model=options.model,
            max_tokens_field=options.max_tokens_field,
            max_tokens=options.max_tokens or prompt.max_tokens or DEFAULT_MAX_TOKENS,
            fields={"temperature": 0, **fixed_length, **(prompt.request or {}), **self._extras},
        )
        data = orjson.dumps(body)
        # The extras may have changed max_tokens.
        return b"%b%d\r\n\r\n%b" % (self._head, len(data), data), body.get(
            "max_tokens", body.get("max_completion_tokens")
        )
