"""Estimates the GPU memory that an engine will need, in parts, and the largest context that fits."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.weights.gguf import GgufError, read_gguf

MIB = 2**20
# Tokens that llama.cpp works on at once (its default -ub).
UBATCH = 512
# CUDA context, loaded kernels, cuBLAS workspaces and pools, and the driver's own share in NVML's "used". Fitted, with
# the formula of `estimate`, to llama.cpp's CUDA build with Qwen3-8B in BF16: 19.9 GiB at 4 slots of 8,192 tokens and
# 24.6 GiB at 8, both within 0.3%. Smaller cards reserve less, so this overestimates there.
CONTEXT_MIB = 990.0


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What decides the memory of a model. `gpu_weight_bytes` excludes weights that stay in host memory."""

    gpu_weight_bytes: int
    layers: int
    kv_heads: int
    key_dim: int
    value_dim: int
    vocabulary: int

    def kv_bytes_per_token(self) -> int:
        """Keys and values of all layers for one token, in f16 or bf16."""
        return self.layers * self.kv_heads * (self.key_dim + self.value_dim) * 2


@dataclass(frozen=True, slots=True)
class VramEstimate:
    """MiB, part by part."""

    weights_mib: float
    kv_mib: float
    compute_mib: float
    context_mib: float

    @property
    def total_mib(self) -> float:
        return self.weights_mib + self.kv_mib + self.compute_mib + self.context_mib

    def __str__(self) -> str:
        return (
            f"{self.total_mib / 1024:.1f} GiB (weights {self.weights_mib / 1024:.1f}, KV {self.kv_mib / 1024:.1f},"
            f" compute {self.compute_mib / 1024:.1f}, CUDA {self.context_mib / 1024:.1f})"
        )


def estimate(shape: ModelShape, *, slots: int, max_seq_len: int) -> VramEstimate:
    """Estimate the memory for `slots` sequences of `max_seq_len` tokens.

    Compute: logits of one batch in f32, and its attention mask over the whole context in f32 and f16.
    """
    tokens = slots * max_seq_len
    compute = UBATCH * (4 * shape.vocabulary + 6 * tokens)
    return VramEstimate(
        weights_mib=shape.gpu_weight_bytes / MIB,
        kv_mib=tokens * shape.kv_bytes_per_token() / MIB,
        compute_mib=compute / MIB,
        context_mib=CONTEXT_MIB,
    )


def largest_context(shape: ModelShape, free_mib: float, *, slots: int) -> int:
    """The largest `max_seq_len` (a multiple of 256) whose estimate fits into `free_mib`; 0 if none does."""
    fixed = estimate(shape, slots=slots, max_seq_len=0).total_mib
    per_token = slots * (shape.kv_bytes_per_token() + 6 * UBATCH) / MIB
    return max(0, int((free_mib - fixed) / per_token) // 256 * 256)


def shape_of_gguf(path: Path) -> ModelShape | None:
    """The shape from a GGUF's header; None if it lacks values (another kind of architecture, a broken file).

    llama.cpp keeps the token embeddings in host memory; where the output layer is tied to them, a copy is on the card.
    """
    try:
        gguf = read_gguf(path)
    except (GgufError, OSError):
        return None
    heads, width = gguf.of_architecture("attention.head_count"), gguf.of_architecture("embedding_length")
    kv_heads = gguf.of_architecture("attention.head_count_kv") or heads
    layers = gguf.of_architecture("block_count")
    if isinstance(kv_heads, list):
        # One number per layer: use the sum.
        kv_heads, layers = sum(kv_heads), 1
    if not all(isinstance(value, int) and value > 0 for value in (heads, width, kv_heads, layers)):
        return None
    key_dim = gguf.of_architecture("attention.key_length") or width // heads
    vocabulary = gguf.of_architecture("vocab_size") or gguf.metadata.get("tokenizer.ggml.tokens") or 0
    weights = sum(gguf.tensor_bytes.values())
    if "output.weight" in gguf.tensor_bytes:
        weights -= gguf.tensor_bytes.get("token_embd.weight", 0)
    return ModelShape(
        gpu_weight_bytes=weights,
        layers=layers,
        kv_heads=kv_heads,
        key_dim=key_dim,
        value_dim=gguf.of_architecture("attention.value_length") or key_dim,
        vocabulary=vocabulary if isinstance(vocabulary, int) else len(vocabulary),
    )


def shape_of_safetensors(folder: Path) -> ModelShape | None:
    """The shape from a Hugging Face folder's config.json and file sizes; None if values are missing."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    except (OSError, ValueError):
        return None
    config = config.get("text_config") or config
    try:
        heads = int(config["num_attention_heads"])
        head_dim = int(config.get("head_dim") or config["hidden_size"] // heads)
        return ModelShape(
            gpu_weight_bytes=weights,
            layers=int(config["num_hidden_layers"]),
            kv_heads=int(config.get("num_key_value_heads") or heads),
            key_dim=head_dim,
            value_dim=head_dim,
            vocabulary=int(config["vocab_size"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
