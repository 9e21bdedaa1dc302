"""vllm.rs: what its adapter rejects before a start, and its command line."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import engines.vllm_rs
from engines import EngineConfig, EngineError, ReadBack, create
from engines.machine.cuda_code import CudaCode, cuda_code
from engines.vllm_rs import VllmRs
from tests.engines.helpers import model_folder

PTX, MACHINE_CODE = 1, 2


def fat_binary(*entries: tuple[int, int]) -> bytes:
    """A fat binary with entries (kind, architecture), as nvcc embeds them."""
    body = b"".join(
        struct.pack("<HHIQ", kind, 0x101, 64, 32).ljust(28, b"\0")
        + struct.pack("<I", arch).ljust(36, b"\0")
        + b"x" * 32
        for kind, arch in entries
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def wheel(tmp_path: Path, *entries: tuple[int, int], missing: tuple[str, ...] = (), version: str = "0.8.12") -> VllmRs:
    """The adapter over a Python that answers as one with such a wheel would."""
    package = tmp_path / "site" / "vllm_rs"
    package.mkdir(parents=True)
    (package / "runner").write_bytes(
        b"\x7fELF" + b"\0" * 100 + fat_binary(*entries) + b"\0" * 40 + fat_binary(*entries)
    )
    python = tmp_path / "python"
    answer = json.dumps({"folder": str(package), "version": version, "missing": list(missing)})
    python.write_text(f"#!/bin/sh\nprintf '%s' '{answer}'\n")
    python.chmod(0o755)
    model = model_folder(tmp_path / "hf")
    config = EngineConfig("r", "vllm_rs", model, binary=str(python), port=8123, slots=4, max_seq_len=2048)
    engine = create(config)
    assert isinstance(engine, VllmRs)
    return engine


def card(monkeypatch: pytest.MonkeyPatch, capability: str) -> None:
    cards: list[dict[str, Any]] = [{"name": "NVIDIA H200", "compute_capability": capability}]
    monkeypatch.setattr(engines.vllm_rs, "gpu_inventory", lambda: cards)


def test_the_architectures_of_a_fat_binary_are_read(tmp_path: Path) -> None:
    program = tmp_path / "runner"
    program.write_bytes(
        b"junk" + fat_binary((MACHINE_CODE, 80), (PTX, 80)) + fat_binary((MACHINE_CODE, 90)) + b"\x50\xed"
    )
    assert cuda_code(program) == CudaCode(machine_code=frozenset({80, 90}), ptx=frozenset({80}))


@pytest.mark.parametrize(
    "content", [b"", b"\x50\xed\x55\xba", b"\x50\xed\x55\xba\x01\0\x10\0\xff\xff\xff\xff\0\0\0\0", b"plain"]
)
def test_a_program_without_gpu_code_holds_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "program").write_bytes(content)
    assert cuda_code(tmp_path / "program") is None


@pytest.mark.parametrize(
    ("machine_code", "ptx", "capability", "runs"),
    [
        ({80}, set(), 80, True),
        ({80}, set(), 86, True),  # a later card of the same major architecture
        ({86}, set(), 80, False),  # an earlier one
        ({80}, set(), 90, False),
        ({80}, {80}, 90, True),  # the driver translates the PTX
        ({75}, {90}, 89, False),
    ],
)
def test_machine_code_runs_on_its_major_architecture_and_ptx_on_later_cards(
    machine_code: set[int], ptx: set[int], capability: int, runs: bool
) -> None:
    assert CudaCode(frozenset(machine_code), frozenset(ptx)).runs_on(capability) is runs


def test_a_wheel_without_ptx_is_rejected_on_a_newer_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card(monkeypatch, "9.0")
    engine = wheel(tmp_path, (MACHINE_CODE, 80), version="0.9.1")
    with pytest.raises(EngineError, match=r"0\.9\.1 holds code for sm_80, and no PTX: it cannot run on NVIDIA H200"):
        engine.check()


def test_a_wheel_with_ptx_passes_on_a_newer_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card(monkeypatch, "9.0")
    wheel(tmp_path, (MACHINE_CODE, 80), (PTX, 80)).check()


def test_a_missing_cuda_library_is_named_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card(monkeypatch, "9.0")
    with pytest.raises(EngineError, match=r"libcublas\.so\.12 cannot be loaded; links .*LD_LIBRARY_PATH"):
        wheel(tmp_path, (PTX, 80), missing=("libcublas.so.12",)).check()


def test_a_python_without_the_wheel_is_one_line(tmp_path: Path) -> None:
    import sys

    config = EngineConfig("r", "vllm_rs", model_folder(tmp_path / "hf"), binary=sys.executable, port=8123)
    with pytest.raises(EngineError, match=r"has no package vllm_rs; pip install vllm-rs==0\.8\.12"):
        create(config).check()


def test_the_command_line_has_slots_context_and_no_prefix_cache(tmp_path: Path) -> None:
    argv = wheel(tmp_path, (PTX, 80)).argv()
    assert argv[1:3] == ["-m", "vllm_rs.server"]
    assert argv[argv.index("--max-num-seqs") + 1] == "4" and argv[argv.index("--max-model-len") + 1] == "2048"
    assert not [word for word in argv if "prefix-cache" in word]


def test_a_newer_wheel_is_told_to_leave_its_prefix_cache_off(tmp_path: Path) -> None:
    assert "--disable-prefix-cache" in wheel(tmp_path, (PTX, 80), version="0.10.0").argv()


def test_greedy_is_asked_for_as_this_engine_understands_it(tmp_path: Path) -> None:
    asked = {"temperature": 0.0, "top_p": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "repeat_penalty": 1.0}
    assert wheel(tmp_path, (PTX, 80)).request_fields(asked, fixed_length=True) == {
        "ignore_eos": True,
        "thinking": False,
        "temperature": 1e-8,
        "top_k": 1,
        "top_p": 1.0,
    }


def test_sampling_is_sent_as_asked(tmp_path: Path) -> None:
    asked = {"temperature": 0.7, "top_k": 20, "presence_penalty": 0.5}
    assert wheel(tmp_path, (PTX, 80)).sampling(asked) == asked


def test_what_it_does_not_answer_is_read_from_its_log(tmp_path: Path) -> None:
    engine, log = wheel(tmp_path, (PTX, 80)), tmp_path / "server.log"
    told = ReadBack(build="vllm-rs 0.8.12", model="Qwen3ForCausalLM")
    assert engine.read_log(told, log) == told
    log.write_text(
        "GPU 0: total 139.80 GB, free 122.86 GB, kv_fraction 95%, Max usable for KVCache 116.72 GB\n"
        "KVCache Allocation: 1024 GPU blocks (9.00 GB x 1), max usable kvcache tokens 65536 (144k bytes per token), "
        "scheduling limits [8 seqs x 8192 tokens]\n"
    )
    assert engine.read_log(told, log) == replace(told, slots=8, context_per_slot=8192)
