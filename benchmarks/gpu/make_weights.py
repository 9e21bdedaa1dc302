"""Random weights in Qwen3-8B's exact shape, as a Hugging Face safetensors folder with Qwen's own vocabulary.

The speed of an engine depends on the shape of the weights, not on their values, so that a host without network can
measure Qwen3-8B's serving speed. Answers mean nothing. The output rows of all but plain lower-case word tokens are
zero, so that greedy text is words and never an end token: unsuppressed rows gave streams that broke on invalid UTF-8
and special tokens.

    python benchmarks/gpu/make_weights.py --vocab ggml-vocab-qwen2.gguf --out /tmp/qwen3-8b-shape
    python benchmarks/gpu/make_weights.py --vocab ... --out DIR --layers 2 --hidden 256 --heads 4 --kv-heads 2 --ffn 512
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path
from typing import Any

WORD = re.compile(r"[ \u0120][a-z]{2,}")
SHARD_BYTES = 4 * 2**30

# What Qwen3's own template does for plain chats: system and turns in <|im_start|> blocks, and an empty think block in
# front of the answer where thinking is switched off.
CHAT_TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
    "{%- endif %}"
)


def main() -> None:
    """Write the folder."""
    arguments = parse_arguments()
    started = time.monotonic()
    arguments.out.mkdir(parents=True, exist_ok=True)
    vocabulary = write_tokenizer(arguments.vocab, arguments.out)
    write_config(arguments)
    keep = [number for token, number in vocabulary.items() if WORD.fullmatch(token)]
    total = write_weights(arguments, keep)
    print(
        f"{arguments.out}: {total / 1e9:.2f} GB of BF16, {len(keep)} of {arguments.vocab_size} output rows kept, "
        f"{time.monotonic() - started:.0f} s"
    )


def parse_arguments() -> argparse.Namespace:
    """The shape and where it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=Path, required=True, help="ggml-vocab-qwen2.gguf of a llama.cpp source tree")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--ffn", type=int, default=12288)
    parser.add_argument("--vocab-size", type=int, default=151936)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def write_tokenizer(vocab: Path, out: Path) -> dict[str, int]:
    """Turn the vocabulary-only GGUF into Hugging Face tokenizer files; returns token -> id."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(str(vocab.parent), gguf_file=vocab.name)
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.eos_token = "<|im_end|>"
    tokenizer.pad_token = "<|endoftext|>"
    tokenizer.save_pretrained(str(out))
    found: dict[str, int] = tokenizer.get_vocab()
    return found


def write_config(arguments: argparse.Namespace) -> None:
    """The files beside the weights that make the folder a model of transformers'."""
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 151643,
        "eos_token_id": 151645,
        "head_dim": arguments.head_dim,
        "hidden_act": "silu",
        "hidden_size": arguments.hidden,
        "initializer_range": 0.02,
        "intermediate_size": arguments.ffn,
        "max_position_embeddings": 40960,
        "max_window_layers": arguments.layers,
        "num_attention_heads": arguments.heads,
        "num_hidden_layers": arguments.layers,
        "num_key_value_heads": arguments.kv_heads,
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "rope_theta": 1000000,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": arguments.vocab_size,
    }
    (arguments.out / "config.json").write_text(json.dumps(config, indent=2))
    generation = {"do_sample": False, "eos_token_id": [151645, 151643], "pad_token_id": 151643}
    (arguments.out / "generation_config.json").write_text(json.dumps(generation, indent=2))


def tensors(arguments: argparse.Namespace) -> list[tuple[str, tuple[int, ...]]]:
    """Name and shape of every tensor of a Qwen3 checkpoint, in the order of the layers."""
    hidden, ffn, head = arguments.hidden, arguments.ffn, arguments.head_dim
    queries, keys = arguments.heads * head, arguments.kv_heads * head
    found: list[tuple[str, tuple[int, ...]]] = [("model.embed_tokens.weight", (arguments.vocab_size, hidden))]
    for layer in range(arguments.layers):
        prefix = f"model.layers.{layer}."
        found += [
            (prefix + "input_layernorm.weight", (hidden,)),
            (prefix + "self_attn.q_proj.weight", (queries, hidden)),
            (prefix + "self_attn.k_proj.weight", (keys, hidden)),
            (prefix + "self_attn.v_proj.weight", (keys, hidden)),
            (prefix + "self_attn.o_proj.weight", (hidden, queries)),
            (prefix + "self_attn.q_norm.weight", (head,)),
            (prefix + "self_attn.k_norm.weight", (head,)),
            (prefix + "post_attention_layernorm.weight", (hidden,)),
            (prefix + "mlp.gate_proj.weight", (ffn, hidden)),
            (prefix + "mlp.up_proj.weight", (ffn, hidden)),
            (prefix + "mlp.down_proj.weight", (hidden, ffn)),
        ]
    return [*found, ("model.norm.weight", (hidden,)), ("lm_head.weight", (arguments.vocab_size, hidden))]


def write_weights(arguments: argparse.Namespace, keep: list[int]) -> int:
    """Write the shards and their index; returns the bytes of all tensors."""
    import torch
    from safetensors.torch import save_file

    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator(device=device).manual_seed(arguments.seed)
    shards: list[list[str]] = []
    pending: dict[str, torch.Tensor] = {}
    total = size = 0

    def flush() -> None:
        nonlocal size
        save_file(pending, str(arguments.out / f"model-{len(shards) + 1:05d}.safetensors"), metadata={"format": "pt"})
        shards.append(list(pending))
        pending.clear()
        size = 0

    for name, shape in tensors(arguments):
        if len(shape) == 1:
            tensor = torch.ones(shape, dtype=torch.bfloat16)
        else:
            values = torch.randn(shape, generator=generator, device=device, dtype=torch.float32) * 0.02
            if name == "lm_head.weight":
                mask = torch.zeros(shape[0], 1, device=device)
                mask[torch.tensor(keep, device=device)] = 1.0
                values *= mask
            tensor = values.to(torch.bfloat16).cpu()
        pending[name] = tensor
        size += tensor.nbytes
        total += tensor.nbytes
        if size >= SHARD_BYTES:
            flush()
    if pending:
        flush()
    index = {
        "metadata": {"total_size": total},
        "weight_map": {
            name: f"model-{number:05d}.safetensors" for number, names in enumerate(shards, start=1) for name in names
        },
    }
    (arguments.out / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


if __name__ == "__main__":
    main()
