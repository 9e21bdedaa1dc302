"""The shape of run.json and engine.json as far as judging relies on it: a damaged file is named, and is no crash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

Shape = Any
"""A type, a tuple of types, {field: shape}, or [shape of each item]. Every field may be missing or null."""

_NUMBER = (int, float)

MANIFEST: Shape = {
    "schema": int,
    "run_id": str,
    "created_utc": str,
    "profile": {
        "name": str,
        "baseline": str,
        "seed": int,
        "max_seq_len": int,
        "thinking": bool,
        "cache": bool,
        "error_limit": _NUMBER,
        "sampling": dict,
        "engines": [{"name": str, "kind": str}],
        "cells": [{"scenario": str, "workload": str, "name": str}],
        "workloads": dict,
        "objectives": dict,
        "parity_margin": (dict, *_NUMBER),
        "hooks": {"during_round": int},
        "gate": {"threshold": _NUMBER, "metrics": [str]},
        "verdict": {"deciding": [str]},
    },
    "host": {"os": str, "kernel": str, "cpu": str, "cores": int, "cpu_mhz_max": _NUMBER, "gpu": [dict]},
    "versions": dict,
    "git": dict,
    "order": [list],
    "rounds_done": int,
    "workloads": dict,
    "commands": list,
}
ENGINE: Shape = {
    "schema": int,
    "engine": str,
    "kind": str,
    "round": int,
    "argv": [str],
    "env": dict,
    "asked": {"max_seq_len": int, "slots": int, "context_per_slot": int, "sampling": dict},
    "weights": {"sha256": str, "source_sha256": str, "bytes": int},
    "started_utc": str,
    "stopped_utc": str,
    "exit_code": int,
    "stop_reason": str,
    "readback": {"build": str, "model": str, "context_per_slot": int, "slots": int, "extra": dict},
    "probe": {"prompt_tokens": dict, "notes": list},
    "provenance": dict,
    "machine": {
        "vram_before_mib": _NUMBER,
        "vram_after_mib": _NUMBER,
        "cotenants": list,
        "port_free_after": bool,
        "processes_left": int,
    },
    "log_findings": {"swap_events": int},
}

_WORDS = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "true or false"}


def require_shape(path: Path, value: Any, shape: Shape, field: str = "") -> None:
    """Check a value that was read from a file.

    Raises:
        ValueError: a field holds another kind of value; the message names file, field and what was expected.
    """
    if value is None:
        return
    expected = dict if isinstance(shape, dict) else list if isinstance(shape, list) else shape
    # JSON's true is no number, although Python takes it for 1.
    wrong_bool = isinstance(value, bool) and expected in (int, _NUMBER)
    if wrong_bool or not isinstance(value, expected):
        words = _WORDS.get(expected, "a number") if isinstance(expected, type) else "a number"
        raise ValueError(f"{path}: damaged: {field or 'the file'} should be {words}, not {str(value)[:40]!r}")
    if isinstance(shape, dict) and isinstance(value, dict):
        for name, inner in shape.items():
            require_shape(path, value.get(name), inner, f"{field}.{name}".lstrip("."))
    elif isinstance(shape, list):
        for place, item in enumerate(value):
            require_shape(path, item, shape[0], f"{field}[{place}]")
