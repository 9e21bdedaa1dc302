"""The identity of the weights that an engine serves, which is what "same weights" rests on."""

from __future__ import annotations

from pathlib import Path

from engines.files import sha256
from engines.weights.convert import source_files, source_sha256
from records import JsonObject, read_json

_known: dict[tuple[tuple[str, int, int], ...], str] = {}
"""Hashes by path, size and time of change: each life of an engine asks, and gigabytes are read once a process."""


def describe_weights(model: Path | None) -> JsonObject | None:
    """File or folder, its size and SHA-256, and the hash of the source it was converted from, where that is known.

    A folder's hash is that of the sorted names and contents of its weight, configuration and tokenizer files.
    """
    if model is None or not model.exists():
        return None
    files = [model] if model.is_file() else source_files(model)
    key = tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    if key not in _known:
        _known[key] = sha256(model) if model.is_file() else source_sha256(files)
    return {
        "path": model.name,
        "bytes": sum(size for _, size, _ in key),
        "sha256": _known[key],
        "source_sha256": _converted_from(model),
    }


def _converted_from(model: Path) -> str | None:
    try:
        told = read_json(model.with_name(model.name + ".provenance.json")).get("source_sha256")
    except (OSError, ValueError):
        return None
    return str(told) if told else None
