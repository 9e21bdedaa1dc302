"""Profiles: what to run, as TOML, checked in full before anything starts.

A profile is frozen once read. Every mistake is one line that names the file, the key and what was expected.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import os
import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from driver._profile_model import (
    Cell,
    EngineSection,
    Gate,
    Objectives,
    Profile,
    Sampling,
    WorkloadSection,
)

__all__ = [
    "Cell",
    "EngineSection",
    "Profile",
    "ProfileError",
    "WorkloadSection",
    "find_profile",
    "load_profile",
    "parse_profile",
    "resolve_model",
]


class ProfileError(ValueError):
    """A profile that cannot be used. The message is complete: file, key, what was expected."""


def load_profile(path: Path | str) -> Profile:
    """Read and check a profile; a bare name such as `demo` means `profiles/demo.toml` of the checkout.

    Raises:
        ProfileError: one line a mistake, each naming file, key and what was expected.
    """
    path = find_profile(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path}: not TOML: {error}") from None
    return parse_profile(values, str(path))


def find_profile(path: Path | str) -> Path:
    """The file that a user's word for a profile means."""
    path = Path(path)
    if path.suffix == "" and not path.exists():
        named = Path(__file__).resolve().parent.parent / "profiles" / f"{path}.toml"
        if named.exists():
            return named
    return path


def parse_profile(values: dict[str, Any], source: str) -> Profile:
    """Check a profile that is already a dictionary (a manifest's, a test's).

    Raises:
        ProfileError: as `load_profile`.
    """
    try:
        return Profile.model_validate(_expand(values, source))
    except ValidationError as error:
        found = error.errors()
        # A list whose items all failed is also reported as too short, which would be a second line for one mistake.
        places = [item["loc"] for item in found]
        told = [
            i for i in found if i["type"] != "too_short" or not any(p[:1] == i["loc"] and len(p) > 1 for p in places)
        ]
        raise ProfileError("\n".join(_one_line(source, item) for item in told)) from None


def resolve_model(model: str | None) -> Path | None:
    """The file or folder that an engine's `model` means; `convert:` is resolved by the driver before this.

    Raises:
        ProfileError: a `package:DIST/FILE` that is not installed.
    """
    if model is None:
        return None
    if not model.startswith("package:"):
        return Path(model).expanduser()
    distribution, _, wanted = model.removeprefix("package:").partition("/")
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        raise ProfileError(f"model {model!r}: package {distribution!r} is not installed; pip install it") from None
    for file in files:
        # The package itself is never imported: it may pull in a whole command line of its own.
        if file.name == wanted:
            return Path(str(file.locate()))
    raise ProfileError(f"model {model!r}: package {distribution!r} holds no file {wanted!r}")


def _expand(value: Any, source: str) -> Any:
    """Replace ${VARIABLE} and ${VARIABLE:-default} in every string."""
    if isinstance(value, dict):
        return {key: _expand(item, source) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, source) for item in value]
    if not isinstance(value, str):
        return value

    def lookup(match: re.Match[str]) -> str:
        found = os.environ.get(match["name"], match["default"])
        if found is None:
            raise ProfileError(f"{source}: {match[0]} is used, but the environment has no {match['name']}")
        return found

    return re.sub(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}", lookup, value)


def _one_line(source: str, error: Any) -> str:
    """One of pydantic's errors in our words: file, key, what was expected."""
    place = ""
    for part in error["loc"]:
        place += f"[{part}]" if isinstance(part, int) else f".{part}" if place else str(part)
    where = f"{source}: {place}: " if place else f"{source}: "
    if error["type"] == "extra_forbidden":
        return where + "unknown key" + _did_you_mean(error["loc"])
    if error["type"] == "string_pattern_mismatch":
        return where + f"{error['input']!r} was given; expected {_PATTERNS.get(str(error['loc'][-1]), 'another form')}"
    if error["type"] == "missing":
        return where + "missing; the profile needs it"
    message = str(error["msg"]).removeprefix("Value error, ").replace("\n", " ")
    return where + message[0].lower() + message[1:] if not message.startswith(("`", '"')) else where + message


_PATTERNS = {
    "name": "letters, digits, '.', '_' and '-', at most 64",
    "cores": "cores such as 0 or 0,2-3",
}


def _did_you_mean(loc: tuple[int | str, ...]) -> str:
    section: Any = Profile
    for part in loc[:-1]:
        if isinstance(part, str):
            section = _SECTIONS.get(part, section)
    close = difflib.get_close_matches(str(loc[-1]), list(section.model_fields), n=1)
    return f' (did you mean "{close[0]}"?)' if close else f"; known are {', '.join(section.model_fields)}"


_SECTIONS: dict[str, type[BaseModel]] = {
    "engines": EngineSection,
    "cells": Cell,
    "workloads": WorkloadSection,
    "sampling": Sampling,
    "objectives": Objectives,
    "gate": Gate,
}
