"""Safetensors -> BF16 GGUF with llama.cpp's own converter, then checked, and linked to its source by a hash.

The converter runs in a separate environment, because its requirement files name other indexes and old pins.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.base import EngineError
from engines.build.source import cache_dir, find_source
from engines.files import free_at, sha256, sha256_of_all
from engines.python_tool import package_versions
from engines.weights.check import check_gguf, read_weights
from engines.weights.environment import Progress, Say, environment, run

SOURCE_SUFFIXES = {".safetensors", ".json", ".model", ".txt", ".jinja"}


@dataclass(frozen=True, slots=True)
class Converted:
    """A GGUF and the proof of its weights' origin."""

    path: Path
    provenance: dict[str, Any]


def convert(
    model_dir: Path,
    out: Path | None,
    *,
    python: Path | None,
    source: Path | None,
    say: Say,
    on_progress: Progress | None = None,
) -> Converted:
    """Convert a Hugging Face folder; the same source is not converted twice.

    Args:
        model_dir: folder with config.json, tokenizer files and *.safetensors.
        out: path of the GGUF; by default in the cache, named by the source's hash.
        python: an interpreter that has torch and transformers; by default an environment made in the cache.
        source: a llama.cpp tree or archive; by default as `find_source`.
        say: called with a line for each step.
        on_progress: called with (percent, 100) while the GGUF is written.

    Raises:
        EngineError: there is nothing to convert or no converter, the conversion failed, or the result fails its check.
    """
    weights = read_weights(model_dir)
    files = source_files(model_dir)
    say(f"hashing {len(files)} files of {model_dir}")
    identity = source_sha256(files)
    path = out or cache_dir() / "gguf" / f"{model_dir.resolve().name}-{identity[:12]}-BF16.gguf"
    sidecar = path.with_name(path.name + ".provenance.json")
    if path.exists() and sidecar.exists():
        known = _read_sidecar(sidecar)
        # The file itself is hashed too, to detect a GGUF that was replaced or cut.
        if known.get("source_sha256") == identity and known.get("gguf_sha256") == sha256(path):
            say(f"converted already: {path}")
            return Converted(path, known)
    tree = find_source(source, complete=True, say=say)
    script = tree.path / "convert_hf_to_gguf.py"
    if not script.exists():
        raise EngineError(
            f"convert: the source ({tree.build}) has no convert_hf_to_gguf.py; give a whole tree with --source"
        )
    interpreter = python or environment(say)
    _check_disk(path, 2 * weights.expected_elements)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.gguf")
    say(f"converting {model_dir.name} with {tree.build}")
    try:
        command = [str(interpreter), str(script), str(model_dir), "--outtype", "bf16", "--outfile", str(temporary)]
        run(command, {"PYTHONPATH": str(tree.path / "gguf-py"), "HF_HUB_OFFLINE": "1"}, "convert", on_progress)
        facts = check_gguf(temporary, weights)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    provenance = {
        "source": model_dir.name,
        "source_sha256": identity,
        "gguf_sha256": sha256(path),
        "converter": tree.to_dict(),
        "packages": package_versions(str(interpreter), "torch", "transformers", "numpy", "sentencepiece"),
        **facts,
    }
    sidecar.write_text(json.dumps(provenance, indent=2), encoding="utf-8")
    return Converted(path, provenance)


def _read_sidecar(sidecar: Path) -> dict[str, Any]:
    try:
        known = json.loads(sidecar.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def source_files(model_dir: Path) -> list[Path]:
    """The files that make up a model, in name order: weights, configuration, tokenizer."""
    return sorted(p for p in model_dir.iterdir() if p.is_file() and p.suffix in SOURCE_SUFFIXES)


def source_sha256(files: list[Path]) -> str:
    """Hash of the names and contents of a model's files."""
    return sha256_of_all((file.name, file) for file in files)


def _check_disk(out: Path, needed: int) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    place, free = free_at(out.parent)
    if free < needed:
        raise EngineError(
            f"convert: {free / 2**30:.1f} GiB free at {place}, {needed / 2**30:.1f} GiB are needed; "
            "set ENGINEBENCH_CACHE to a place with more space, or give --out"
        )
