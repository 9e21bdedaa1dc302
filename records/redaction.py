"""The key for the requests, and what may be written down: of a command line, an environment, a URL or request fields.

Everything but the secrets. Standard library only, since the load process imports this.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

SECRET = re.compile(r"key|token$|secret|passw|credential|authorization", re.IGNORECASE)
HIDDEN = "***"
CLIENT_KEYS = ("ENGINEBENCH_API_KEY", "OPENAI_API_KEY")
"""Where the key for the client's requests comes from, the first before the second; no engine needs to see them."""
# An option or a variable; `--override-kv tokenizer.ggml.add_bos_token=...` is neither.
_SETTING = re.compile(r"-|[A-Z_][A-Z0-9_]*$")
_USER = re.compile(r"(?<=://)[^/\s?#]*@")


def shown_url(text: str) -> str:
    """A text without the user and password of any URL in it."""
    return _USER.sub("", text)


def shown_argv(words: Iterable[str]) -> list[str]:
    """A command line: what follows `--api-key` and the like, and what is set to a secret's name, is hidden."""
    shown: list[str] = []
    for word in words:
        option, equals, _ = word.partition("=")
        if shown and shown[-1].startswith("-") and "=" not in shown[-1] and SECRET.search(shown[-1]):
            # A flag without a value, such as --hide-key, is followed by another option.
            shown.append(word if word.startswith("-") else HIDDEN)
        else:
            hide = equals and _SETTING.match(option) and SECRET.search(option)
            shown.append(f"{option}={HIDDEN}" if hide else shown_url(word))
    return shown


def shown_env(env: Mapping[str, str]) -> dict[str, str]:
    """An environment: values of names that look like secrets are hidden."""
    return {name: HIDDEN if SECRET.search(name) else shown_url(value) for name, value in env.items()}


def shown_fields(value: Any) -> Any:
    """A JSON value, such as request fields: what a name that looks like a secret's holds is hidden, at any depth."""
    if isinstance(value, Mapping):
        return {
            name: HIDDEN if SECRET.search(name) and item is not None else shown_fields(item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        if all(isinstance(item, str) for item in value):
            return shown_argv(value)
        return [shown_fields(item) for item in value]
    return shown_url(value) if isinstance(value, str) else value


def client_key() -> str | None:
    """The key of the environment for the client's requests; None where there is none.

    Raises:
        ValueError: it cannot be put in a header; one line that does not show it.
    """
    for name in CLIENT_KEYS:
        if key := os.environ.get(name):
            return _checked(name, key)
    return None


def _checked(name: str, key: str) -> str:
    # An error of the HTTP client would quote the whole header.
    for place, char in enumerate(key, start=1):
        if not "!" <= char <= "~":
            raise ValueError(
                f"{name}: character {place} of the key is a space, a control character or not ASCII (a copied dash or"
                " ellipsis?); set the key again"
            )
    return key
