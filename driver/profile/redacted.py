"""Hides the secrets of a resolved profile for `run.json`: `${NAME}` inserts environment values, and runs are shared."""

from __future__ import annotations

from typing import Any

from records import JsonObject
from records.headers import shown as shown_headers
from records.redaction import shown_argv, shown_env, shown_fields, shown_text


def shown_profile(profile: JsonObject) -> JsonObject:
    """A resolved profile with its secrets hidden, by the rules of `engine.json`. Repeating it changes nothing."""
    engines = profile.get("engines")
    if not isinstance(engines, list):
        return profile
    shown: JsonObject = {"engines": [_shown(engine) if isinstance(engine, dict) else engine for engine in engines]}
    if isinstance(hooks := profile.get("hooks"), dict):
        commands = {name: shown_argv(value) if isinstance(value, list) else value for name, value in hooks.items()}
        shown["hooks"] = commands
    return profile | shown


def _shown(engine: JsonObject) -> JsonObject:
    shown: dict[str, Any] = {}
    for key, value in engine.items():
        if key == "env" and isinstance(value, dict):
            shown[key] = shown_env(value)
        elif key in ("args", "command") and isinstance(value, list):
            shown[key] = shown_argv(value)
        elif key == "headers" and isinstance(value, dict):
            shown[key] = shown_headers(value)
        elif key in ("options", "request_extras"):
            shown[key] = shown_fields(value)
        else:
            shown[key] = shown_text(value) if isinstance(value, str) else value
    return shown
