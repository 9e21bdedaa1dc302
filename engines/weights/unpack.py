"""The other way: a GGUF as a BF16 safetensors folder, so that two engines can start from the very same weights."""

from __future__ import annotations

from pathlib import Path

from engines.base import EngineError
from engines.weights.environment import Say, environment, run
from engines.weights.gguf import GgufError, read_gguf


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
    run(command, {"HF_HUB_OFFLINE": "1"}, "convert: unpack")
