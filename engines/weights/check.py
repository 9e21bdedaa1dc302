"""Checks a conversion: compares the weights of a Hugging Face folder with those of the GGUF made from it."""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engines.base import EngineError
from engines.machine.vram import ModelShape, shape_of_safetensors
from engines.weights.gguf import Gguf, GgufError, read_gguf

F32, BF16 = 0, 30
WIDTH = {F32: 4, BF16: 2}
# Tensors that a GGUF does not have: engines compute them, or they are stored twice.
LEFT_OUT = ("rotary_emb.inv_freq", "masked_bias", "attn.bias")
# Goes into a separate file (mmproj), which a text benchmark does not use.
OTHER_SENSES = re.compile(r"(model\.)?(visual|vision_\w+|multi_modal_projector|audio_\w+)\.")
MAX_HEADER = 1 << 28


@dataclass(frozen=True, slots=True)
class Weights:
    """A Hugging Face folder: config.json, the elements of each tensor, and whether the output layer is its own."""

    config: dict[str, Any]
    elements: dict[str, int]
    dtypes: dict[str, str]

    @property
    def expected_elements(self) -> int:
        """Number of elements that its GGUF must have; merging experts or permuting heads does not change it."""
        kept = {
            name: n for name, n in self.elements.items() if not (name.endswith(LEFT_OUT) or OTHER_SENSES.match(name))
        }
        if self.config.get("tie_word_embeddings") and "model.embed_tokens.weight" in kept:
            kept.pop("lm_head.weight", None)
        return sum(kept.values())


def read_weights(folder: Path) -> Weights:
    """Read config.json and the safetensors headers, no weights.

    Raises:
        EngineError: it is no such folder, a file of the index is missing, or a header is broken.
    """
    if not folder.is_dir():
        raise EngineError(f"convert: {folder}: no such folder; give a Hugging Face folder with safetensors")
    if not (folder / "config.json").is_file():
        raise EngineError(f"convert: {folder}: holds no config.json; give a Hugging Face folder with safetensors")
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"convert: {folder / 'config.json'}: cannot be read ({error.__class__.__name__})") from None
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise EngineError(f"convert: {folder}: holds no .safetensors file")
    _require_complete(folder)
    elements: dict[str, int] = {}
    dtypes: dict[str, str] = {}
    for file in files:
        for name, tensor in _header(file).items():
            if name != "__metadata__":
                elements[name] = math.prod(tensor["shape"])
                dtypes[name] = tensor["dtype"]
    return Weights(config, elements, dtypes)


def shape_once_converted(folder: Path) -> ModelShape | None:
    """The shape of a folder's future BF16 GGUF, for the memory estimate; None if unknown."""
    shape = shape_of_safetensors(folder)
    try:
        weights = read_weights(folder)
    except EngineError:
        return None
    tied = weights.config.get("tie_word_embeddings")
    on_host = 0 if tied else weights.elements.get("model.embed_tokens.weight", 0)
    return replace(shape, gpu_weight_bytes=WIDTH[BF16] * (weights.expected_elements - on_host)) if shape else None


def check_gguf(path: Path, weights: Weights) -> dict[str, Any]:
    """Compare a converted GGUF with its source: all elements, BF16 or F32, a tokenizer, a complete file.

    Returns:
        The facts of the GGUF, for the provenance.

    Raises:
        EngineError: something is missing or has lost precision.
    """
    try:
        gguf = read_gguf(path)
    except (GgufError, OSError) as error:
        raise EngineError(f"convert: the result is broken: {error}") from None
    kinds = gguf.tensor_kinds
    foreign = sorted(name for name, (kind, _) in kinds.items() if kind not in WIDTH)
    if foreign:
        raise EngineError(f"convert: tensor {foreign[0]} is neither BF16 nor F32 in the result")
    # Factors of long-context rotary embeddings become separate tensors.
    held = sum(count for name, (_, count) in kinds.items() if not name.startswith("rope_"))
    if held != weights.expected_elements:
        raise EngineError(
            f"convert: the result holds {held} weights, the source {weights.expected_elements}: tensors were lost"
        )
    in_bf16 = sum(count for kind, count in kinds.values() if kind == BF16)
    if in_bf16 < 0.95 * held:
        raise EngineError(f"convert: only {in_bf16 / held:.0%} of the result's weights are BF16")
    if path.stat().st_size < sum(WIDTH[kind] * count for kind, count in kinds.values()):
        raise EngineError("convert: the result is cut short: smaller than its tensors")
    return {
        "tensors": len(kinds),
        "source_tensors": len(weights.elements),
        "parameters": held,
        "weight_bytes": sum(WIDTH[kind] * count for kind, count in kinds.values()),
        "architecture": gguf.metadata.get("general.architecture"),
        "bf16_tensors": sum(kind == BF16 for kind, _ in kinds.values()),
        "f32_tensors": sum(kind == F32 for kind, _ in kinds.values()),
        "source_dtypes": sorted(set(weights.dtypes.values())),
        "bytes": path.stat().st_size,
        **_check_tokenizer(gguf, weights),
    }


def _check_tokenizer(gguf: Gguf, weights: Weights) -> dict[str, Any]:
    tokens = gguf.metadata.get("tokenizer.ggml.tokens")
    count = len(tokens) if isinstance(tokens, list) else tokens
    if not gguf.metadata.get("tokenizer.ggml.model") or not count:
        raise EngineError("convert: the result has no tokenizer; are the tokenizer's files in the source folder?")
    asked = (weights.config.get("text_config") or weights.config).get("vocab_size")
    if isinstance(asked, int) and count < asked:
        raise EngineError(f"convert: the result's tokenizer has {count} tokens, config.json says {asked}")
    template = gguf.metadata.get("tokenizer.chat_template")
    return {
        "tokenizer": gguf.metadata["tokenizer.ggml.model"],
        "tokens": count,
        "chat_template_sha256": hashlib.sha256(template.encode()).hexdigest() if isinstance(template, str) else None,
    }


def _require_complete(folder: Path) -> None:
    """Check that all files of the index exist: an interrupted download leaves some out."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return
    try:
        named = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError):
        raise EngineError(f"convert: {index}: is no index of safetensors") from None
    if missing := sorted(name for name in named if not (folder / name).is_file()):
        raise EngineError(f"convert: {folder / missing[0]}: missing, though the index names it; fetch the model again")


def _header(file: Path) -> dict[str, Any]:
    size = file.stat().st_size
    try:
        with file.open("rb") as content:
            (length,) = struct.unpack("<Q", content.read(8))
            if length > min(MAX_HEADER, size):
                raise ValueError("header longer than the file")
            header: dict[str, Any] = json.loads(content.read(length))
        end = max((tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"), default=0)
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"convert: {file}: not a safetensors file ({error})") from None
    if 8 + length + end != size:
        raise EngineError(f"convert: {file}: {size} bytes, its header says {8 + length + end}; fetch it again")
    return header
