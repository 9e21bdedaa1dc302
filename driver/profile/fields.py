"""The types of the values in a profile: strict, without unknown keys, finite."""

from __future__ import annotations

import re
import shlex
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from driver.run.pinning import parse_cores
from records import NAME


def complete_url(text: str) -> str:
    """Complete a user's base URL: `localhost:8080` becomes `http://localhost:8080`.

    Raises:
        ValueError: the text is no URL.
    """
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or any(character.isspace() for character in text):
        raise ValueError(f"{text!r} was given; expected a URL such as http://127.0.0.1:8080")
    return url


def looks_like_url(text: str) -> bool:
    """Whether a command-line argument is a server's URL: it has a scheme, or is HOST:PORT."""
    return text.startswith(("http://", "https://")) or bool(re.fullmatch(r"[\w.-]+:\d{1,5}(/\S*)?", text))


class Section(BaseModel):
    """A table of the profile: frozen; an unknown key is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _to_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _some_cores(value: str) -> str:
    if not parse_cores(value):
        raise ValueError(f"{value!r} names no core; cores such as 0 or 0,2-3 were expected")
    return value


def _split(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            raise ValueError(f"not a command line: {str(error).lower()}") from None
    return _to_tuple(value)


T = TypeVar("T")
CommandLine = Annotated[tuple[str, ...], BeforeValidator(_split)]
Listed = Annotated[tuple[T, ...], BeforeValidator(_to_tuple)]
Name = Annotated[str, Field(pattern=rf"^{NAME.pattern}$")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Cores = Annotated[str, Field(pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$"), AfterValidator(_some_cores)]
Positive = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
# Integers are allowed too: strict mode would refuse `temperature = 0`.
Number = Annotated[float, Field(strict=False)]
Seconds = Annotated[Number, Field(gt=0)]
