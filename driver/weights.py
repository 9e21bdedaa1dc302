"""The identity of the weights that an engine serves, which is what "same weights" rests on."""

from __future__ import annotations

import hashlib
from pathlib import Path

from engines.convert import SOURCE_SUFFIXES
from records import JsonObject, read_json

_known: dict[tuple[str, int, int], str] = {}


def describe_weights(model: Path | None) -> JsonObject | None:
    """File or folder, its size and SHA-256, and the hash of the source it was converted from, where that is known.

    A folder's hash is that of the sorted names and contents of its weight, configuration and tokenizer files.
    """
    if model is None or not model.exists():
        return None
    sidecar = model.with_name(model.name + ".provenance.json")
    source = read_json(sidecar).get("source_sha256") if sidecar.is_file() else None
    files = [model] if model.is_file() else sorted(p for p in model.iterdir() if p.suffix in SOURCE_SUFFIXES)
    return {
        "path": model.name,
        "bytes": sum(file.stat().st_size for file in files),
        "sha256": _sha256(files[0]) if model.is_file() else _folder_sha256(files),
        "source_sha256": source,
    }


def _folder_sha256(files: list[Path]) -> str:
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.name} {_sha256(file)}\n".encode())
    return total.hexdigest()


def _sha256(file: Path) -> str:
    stat = file.stat()
    key = (str(file), stat.st_size, stat.st_mtime_ns)
    if key not in _known:
        # Each life of an engine asks again; gigabytes are read once a process.
        with file.open("rb") as content:
            _known[key] = hashlib.file_digest(content, "sha256").hexdigest()
    return _known[key]
