"""Reads profiles: TOML files that say what to run. They are checked in full before anything starts.

A profile is frozen. Every mistake gives one line with the file, the key and the expected value.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from driver.profile.errors import lines
from driver.profile.model import Profile
from driver.profile.redacted import shown_profile
from driver.profile.sections import Cell, EngineSection, WorkloadSection
from records.files import require_regular
from records.redaction import is_secret_name, remember

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


PROFILES = Path(__file__).resolve().parents[2] / "profiles"


class ProfileError(ValueError):
    """A profile that cannot be used. The message is complete: file, key, expected value."""


def load_profile(path: Path | str) -> Profile:
    """Read and check a profile; a bare name such as `demo` means `profiles/demo.toml` of the checkout.

    Raises:
        ProfileError: one line per mistake, each with file, key and expected value.
    """
    path = find_profile(path)
    try:
        if not path.is_dir():
            require_regular(path)
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = ", ".join(sorted(each.stem for each in PROFILES.glob("*.toml")))
        raise ProfileError(f"{path}: no such profile; give a TOML file, or one of {known}") from None
    except OSError as error:
        raise ProfileError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path}: not TOML: {error}") from None
    except ValueError as error:
        raise ProfileError(f"{error}; save the profile as a file first") from None
    return parse_profile(values, str(path))


def find_profile(path: Path | str) -> Path:
    """The file of a profile that is given by path or by bare name."""
    path = Path(path)
    if path.suffix == "" and not path.exists():
        named = PROFILES / f"{path}.toml"
        if named.exists():
            return named
    return path


def parse_profile(values: dict[str, Any], source: str) -> Profile:
    """Check a profile that is already a dictionary (a manifest's, a test's).

    Raises:
        ProfileError: as `load_profile`.
    """
    try:
        profile = Profile.model_validate(_expand(values, source))
    except ValidationError as error:
        raise ProfileError("\n".join(lines(source, error))) from None
    # Remembers the profile's secrets, so that texts of a server do not show them either.
    shown_profile(profile.model_dump(mode="json"))
    return profile


def resolve_model(model: str | None) -> Path | None:
    """The file or folder of an engine's `model`; the driver resolves `convert:` before.

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
        variable = os.environ.get(match["name"], match["default"])
        if variable is None:
            raise ProfileError(f"{source}: {match[0]} is used, but the environment has no {match['name']}")
        if is_secret_name(match["name"]):
            remember(variable)
        return variable

    if "\0" in value:
        raise ProfileError(f"{source}: {value!r} holds a NUL character")
    return re.sub(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}", lookup, value)
