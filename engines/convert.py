"""Safetensors -> BF16 GGUF with llama.cpp's own converter, checked after, and tied to its source by a hash.

The converter runs in an environment of its own, since its requirement files name other indexes and old pins.
"""

from __future__ import annotations

import collections
import hashlib
import json
import os
import re
import shutil
import subprocess
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines._base import EngineError
from engines._convert_check import check_gguf, read_weights
from engines._gguf import GgufError, read_gguf
from engines._python_tool import package_versions
from engines._source import cache_dir, find_source

PINS = (
    "torch==2.13.0",
    "transformers[serving]>=5.24,<6",
    "gguf>=0.19,<1",  # reads a GGUF for --unpack; the converter brings its tree's own
    "sentencepiece>=0.2",
    "safetensors>=0.5",
    "protobuf>=5",
    "numpy>=2",
)
"""torch 2.13.0 is the CPU build where pip's settings offer one; install with pip, which reads those settings."""
SOURCE_SUFFIXES = {".safetensors", ".json", ".model", ".txt", ".jinja"}


@dataclass(frozen=True, slots=True)
class Converted:
    """A GGUF and the proof of where its weights come from."""

    path: Path
    provenance: dict[str, Any]


Say = Callable[[str], None]
Progress = Callable[[int, int], None]


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
        out: where the GGUF goes; by default into the cache, named by the source's hash.
        python: an interpreter that has torch and transformers; by default an environment made in the cache.
        source: a llama.cpp tree or archive; by default as `find_source`.
        say: called with a line for each step.
        on_progress: called with (percent, 100) while the GGUF is written.

    Raises:
        EngineError: nothing to convert, no converter, a failed conversion, or a result that fails its check.
    """
    files = source_files(model_dir)
    weights = read_weights(model_dir)
    say(f"hashing {len(files)} files of {model_dir}")
    identity = source_sha256(files)
    path = out or cache_dir() / "gguf" / f"{model_dir.resolve().name}-{identity[:12]}-BF16.gguf"
    sidecar = path.with_name(path.name + ".provenance.json")
    if path.exists() and sidecar.exists():
        known = _read_sidecar(sidecar)
        # The file itself is hashed too: a GGUF that was replaced or cut must not travel under the old proof.
        if known.get("source_sha256") == identity and known.get("gguf_sha256") == _sha256(path):
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
        _run(command, {"PYTHONPATH": str(tree.path / "gguf-py"), "HF_HUB_OFFLINE": "1"}, "convert", on_progress)
        facts = check_gguf(temporary, weights)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    provenance = {
        "source": model_dir.name,
        "source_sha256": identity,
        "gguf_sha256": _sha256(path),
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
    if not python.exists():
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


def unpack(gguf: Path, out: Path, *, python: Path | None, say: Say) -> None:
    """Turn a (quantised) GGUF into a BF16 safetensors folder with tokenizer and chat template, by transformers.

    Raises:
        EngineError: transformers can't read it.
    """
    try:
        template = read_gguf(gguf).metadata.get("tokenizer.chat_template")
    except OSError as error:
        raise EngineError(f"convert: {gguf}: {error.strerror}") from None
    except GgufError as error:
        raise EngineError(f"convert: {error}") from None
    interpreter = python or environment(say)
    say(f"unpacking {gguf.name} into {out}")
    out.mkdir(parents=True, exist_ok=True)
    code = (
        "import sys, torch\n"
        "from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig\n"
        "folder, name, out, template = sys.argv[1:5]\n"
        "model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.bfloat16,\n"
        "    quantization_config=GgufConfig(dequantize=True))\n"
        "if hasattr(model.config, 'quantization_config'): del model.config.quantization_config\n"
        "model.generation_config.do_sample = False\n"
        "model.save_pretrained(out)\n"
        "tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)\n"
        "if template: tokenizer.chat_template = template\n"
        "tokenizer.save_pretrained(out)\n"
    )
    command = [str(interpreter), "-c", code, str(gguf.parent), gguf.name, str(out), str(template or "")]
    _run(command, {"HF_HUB_OFFLINE": "1"}, "convert: unpack")


def _run(command: list[str], env: dict[str, str], what: str, on_progress: Progress | None = None) -> None:
    tail: collections.deque[str] = collections.deque(maxlen=50)
    with subprocess.Popen(
        command,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            # A progress bar ends its lines with a carriage return, which text mode takes for a line's end.
            for line in process.stdout:
                if found := re.match(r"Writing: +(\d+)%", line):
                    if on_progress:
                        on_progress(int(found[1]), 100)
                elif line.strip():
                    tail.append(line.strip())
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        # Of a traceback the line that names the exception, which need not be the last one.
        named = [line for line in tail if re.match(r"[\w.]*(Error|Exception)\b|ERROR:", line)]
        why = (named or list(tail) or ["no output"])[-1][:300]
        raise EngineError(f"{what} failed (exit code {process.returncode}): {why}")


def _check_disk(out: Path, needed: int) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(out.parent).free
    if free < needed:
        raise EngineError(
            f"convert: {free / 2**30:.1f} GiB free at {out.parent}, {needed / 2**30:.1f} GiB are needed; "
            "set ENGINEBENCH_CACHE to a roomier place or give --out"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
