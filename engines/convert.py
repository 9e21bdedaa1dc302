"""Safetensors -> BF16 GGUF with llama.cpp's own converter, checked after, and tied to its source by a hash.

The converter runs in an environment of its own, since its requirement files name other indexes and old pins.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines._base import EngineError
from engines._gguf import GgufError, read_gguf
from engines._source import cache_dir, find_source

PINS = (
    "torch==2.13.0",
    "transformers[serving]>=5.24,<6",
    "sentencepiece>=0.2",
    "safetensors>=0.5",
    "protobuf>=5",
    "numpy>=2",
)
"""torch 2.13.0 is the CPU build where pip's settings offer one; install with pip, which reads those settings."""
SOURCE_SUFFIXES = {".safetensors", ".json", ".model", ".txt", ".jinja"}
LOG_LINES = 3


@dataclass(frozen=True, slots=True)
class Converted:
    """A GGUF and the proof of where its weights come from."""

    path: Path
    provenance: dict[str, Any]


Say = Callable[[str], None]


def convert(model_dir: Path, out: Path | None, *, python: Path | None, source: Path | None, say: Say) -> Converted:
    """Convert a Hugging Face folder; the same source is not converted twice.

    Args:
        model_dir: folder with config.json, tokenizer files and *.safetensors.
        out: where the GGUF goes; by default into the cache, named by the source's hash.
        python: an interpreter that has torch and transformers; by default an environment made in the cache.
        source: a llama.cpp tree or archive; by default as `find_source`.
        say: called with a line for each step.

    Raises:
        EngineError: nothing to convert, no converter, a failed conversion, or a result that fails its check.
    """
    files = source_files(model_dir)
    say(f"hashing {len(files)} files of {model_dir}")
    identity = source_sha256(files)
    path = out or cache_dir() / "gguf" / f"{model_dir.resolve().name}-{identity[:12]}-BF16.gguf"
    sidecar = path.with_name(path.name + ".provenance.json")
    if path.exists() and sidecar.exists():
        known = json.loads(sidecar.read_text(encoding="utf-8"))
        if known.get("source_sha256") == identity:
            say(f"converted already: {path}")
            return Converted(path, known)
    tree = find_source(source, complete=True, say=say)
    script = tree.path / "convert_hf_to_gguf.py"
    if not script.exists():
        raise EngineError(
            f"convert: the source ({tree.build}) has no convert_hf_to_gguf.py; give a whole tree with --source"
        )
    interpreter = python or environment(say)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.gguf")
    say(f"converting {model_dir.name} with {tree.build}")
    try:
        command = [str(interpreter), str(script), str(model_dir), "--outtype", "bf16", "--outfile", str(temporary)]
        _run(command, {"PYTHONPATH": str(tree.path / "gguf-py"), "HF_HUB_OFFLINE": "1"}, "convert")
        facts = check(temporary, model_dir)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    provenance = {
        "source": model_dir.name,
        "source_sha256": identity,
        "gguf_sha256": _sha256(path),
        "converter": tree.to_dict(),
        **facts,
    }
    sidecar.write_text(json.dumps(provenance, indent=2), encoding="utf-8")
    return Converted(path, provenance)


def source_files(model_dir: Path) -> list[Path]:
    """The files that make up a model, in name order.

    Raises:
        EngineError: no such folder, or one without config.json or weights.
    """
    if not (model_dir / "config.json").is_file():
        raise EngineError(f"convert: {model_dir}: no Hugging Face model there (no config.json)")
    files = sorted(p for p in model_dir.iterdir() if p.is_file() and p.suffix in SOURCE_SUFFIXES)
    if not any(p.suffix == ".safetensors" for p in files):
        raise EngineError(f"convert: {model_dir}: no *.safetensors there")
    return files


def source_sha256(files: list[Path]) -> str:
    """Hash of the sorted names and contents of a model's files."""
    total = hashlib.sha256()
    for file in files:
        total.update(f"{file.name} {_sha256(file)}\n".encode())
    return total.hexdigest()


def environment(say: Say) -> Path:
    """The converter's Python, made on first use.

    Raises:
        EngineError: it can't be made, which without a network needs --python.
    """
    folder = cache_dir() / "venv-convert"
    stamp = folder / ".installed"
    wanted = "\n".join(PINS)
    python = folder / "bin" / "python"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    say("making the converter's own environment (torch, transformers): some minutes, once")
    venv.create(folder, with_pip=True, symlinks=True, clear=True)
    # torch by itself first: asked for together with what depends on it, a larger build may be chosen.
    for pins in (PINS[:1], PINS):
        _run(
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins],
            {},
            "convert: pip install",
        )
    stamp.write_text(wanted, encoding="utf-8")
    return python


def check(gguf: Path, model_dir: Path) -> dict[str, Any]:
    """Compare a GGUF with what it was made of; returns the facts for the provenance.

    Raises:
        EngineError: it cannot be read, lacks tensors or a tokenizer, or is too small to be all of the weights.
    """
    try:
        read = read_gguf(gguf)
    except (GgufError, OSError) as error:
        raise EngineError(f"convert: the result can't be read: {error}") from None
    names, elements = _safetensors(model_dir)
    tensors = len(read.tensor_bytes)
    # Weights that share storage (tied embeddings) are written once, a rope table may be added.
    if tensors < len(names) - 1:
        raise EngineError(f"convert: the result has {tensors} tensors, its source {len(names)}")
    tokens = read.metadata.get("tokenizer.ggml.tokens")
    if not tokens:
        raise EngineError("convert: the result has no tokenizer")
    total = sum(read.tensor_bytes.values())
    if total < 2 * elements * 0.98:
        raise EngineError(
            f"convert: the result holds {total:,} bytes of weights, {2 * elements:,} are BF16 of its source"
        )
    return {
        "tensors": tensors,
        "source_tensors": len(names),
        "weight_bytes": total,
        "architecture": read.metadata.get("general.architecture"),
        "file_type": read.metadata.get("general.file_type"),
        "chat_template": "tokenizer.chat_template" in read.metadata,
    }


def unpack(gguf: Path, out: Path, *, python: Path | None, say: Say) -> None:
    """Turn a (quantised) GGUF into a BF16 safetensors folder with tokenizer and chat template, by transformers.

    Raises:
        EngineError: transformers can't read it.
    """
    if not gguf.is_file():
        raise EngineError(f"convert: {gguf}: no such GGUF")
    interpreter = python or environment(say)
    say(f"unpacking {gguf.name} into {out}")
    out.mkdir(parents=True, exist_ok=True)
    template = read_gguf(gguf).metadata.get("tokenizer.chat_template")
    code = (
        "import sys, torch\n"
        "from transformers import AutoModelForCausalLM, AutoTokenizer\n"
        "folder, name, out, template = sys.argv[1:5]\n"
        "model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.bfloat16)\n"
        "model.generation_config.do_sample = False\n"
        "model.save_pretrained(out)\n"
        "tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)\n"
        "if template: tokenizer.chat_template = template\n"
        "tokenizer.save_pretrained(out)\n"
    )
    command = [str(interpreter), "-c", code, str(gguf.parent), gguf.name, str(out), str(template or "")]
    _run(command, {"HF_HUB_OFFLINE": "1"}, "convert: unpack")


def _safetensors(model_dir: Path) -> tuple[set[str], int]:
    """Names of all tensors and the number of their elements, from the files' headers (a length and a JSON object)."""
    names: set[str] = set()
    elements = 0
    for file in sorted(model_dir.glob("*.safetensors")):
        with file.open("rb") as content:
            header = json.loads(content.read(int.from_bytes(content.read(8), "little")))
        for name, entry in header.items():
            if name != "__metadata__":
                names.add(name)
                count = 1
                for side in entry["shape"]:
                    count *= side
                elements += count
    return names, elements


def _run(command: list[str], env: dict[str, str], what: str) -> None:
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, errors="replace")
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-LOG_LINES:]
        raise EngineError(f"{what} failed (exit code {done.returncode}): {' | '.join(lines) or 'no output'}")


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
