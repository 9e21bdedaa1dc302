"""Extra HTTP headers of requests: checked, and read from the environment where they are secret.

A value `ENV:VAR` stands for the variable VAR. Only the reference is written down, never what it stands for.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping

from records.redaction import is_secret_name, remember, shown_text

FROM_ENV = "ENV:"
HANDED = "ENGINEBENCH_HEADERS"
"""The variable with which the driver hands an engine's headers to its load processes, as a JSON object."""
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "content-type"})
"""Headers that the client must write itself: framing, the connection, and what the reader can decode."""


def check_headers(headers: Mapping[str, str]) -> None:
    """Check names, and those values that are no reference.

    Raises:
        ValueError: one line that names the header and never shows its value.
    """
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"header {name!r}: not a name of an HTTP header")
        if name.lower() in _OURS:
            raise ValueError(f"header {name}: the client writes it itself; leave it out")
        if variable := _variable(value):
            if not re.fullmatch(r"[A-Za-z_]\w*", variable):
                raise ValueError(f"header {name}: ENV:NAME was expected, with the name of a variable")
        elif not re.fullmatch(r"[!-~]([ -~]*[!-~])?", value):
            raise ValueError(f"header {name}: the value is empty, or holds a character that no header may hold")


def parse_headers(words: Iterable[str], handed: str = "") -> dict[str, str]:
    """The headers of `NAME=VALUE` words, and those that the driver handed over as JSON; the words override.

    Raises:
        ValueError: a word is no header, or a secret stands on the command line, where others can read it.
    """
    headers: dict[str, str] = json.loads(handed or "{}")
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{name}: NAME=VALUE or NAME=ENV:VARIABLE was expected")
        if is_secret_name(name) and not _variable(value):
            raise ValueError(f"{name}: others can read a command line; put it in a variable: {name}=ENV:VARIABLE")
        headers = replacing(headers, {name: value})
    check_headers(headers)
    return headers


def resolved(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers as they are sent. Every value from the environment is scrubbed from all texts from now on.

    Raises:
        ValueError: a variable is not set, or holds what no header may hold; one line that does not show it.
    """
    sent: dict[str, str] = {}
    for name, value in headers.items():
        variable = _variable(value)
        if variable:
            value = os.environ.get(variable, "")
            if not value:
                raise ValueError(f"header {name}: the environment variable {variable} is not set")
            _remember(value)
        elif is_secret_name(name):
            _remember(value)
        try:
            check_headers({name: value.removeprefix(FROM_ENV)})
        except ValueError as error:
            raise ValueError(f"{error} ({variable or 'the profile'})") from None
        sent[name] = value
    return sent


def replacing(base: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The headers of `base` and then `own`, which replace those of the same name, however it is spelled."""
    names = {name.lower() for name in own}
    return {name: value for name, value in base.items() if name.lower() not in names} | dict(own)


def shown(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers as they may be written down: references stay, secrets are hidden and remembered."""
    return {
        name: value if _variable(value) else shown_text(f"{name}: {value}").partition(": ")[2]
        for name, value in headers.items()
    }


def _variable(value: str) -> str:
    return value.removeprefix(FROM_ENV) if value.startswith(FROM_ENV) else ""


def _remember(value: str) -> None:
    """Scrub a value, and its parts: servers quote a key without its scheme."""
    for part in (value, *re.split(r"[\s;,]+", value)):
        remember(part)
