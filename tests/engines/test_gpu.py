"""GPU: the memory estimate against what was seen, the checks before a start, and the meter; NVML is played."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engines import Engine, EngineConfig, EngineError, create, gpu_inventory, running
from engines.machine.checks import Status, cotenant_check, gpu_checks, vram_check
from engines.machine.vram import ModelShape, estimate, largest_context, shape_of_gguf, shape_of_safetensors
from engines.telemetry.gpu import CoTenant, cotenants, memory_mib, throttle_words, visible_gpus
from engines.telemetry.meter import metering
from engines.weights.gguf import GgufError, read_gguf
from tests.engines.helpers import model_folder, smollm2, standin

# Qwen3-8B: 8,190,735,360 parameters in BF16; llama.cpp keeps the token embeddings (151,936 x 4,096) on the host.
QWEN3_8B = ModelShape((8_190_735_360 - 151_936 * 4096) * 2, 36, 8, 128, 128, 151_936)
GIB_MIB = 1024


class FakeNvml(SimpleNamespace):
    """One card of 24 GiB; `processes` are on it."""

    NVMLError = RuntimeError
    NVML_CLOCK_SM = NVML_CLOCK_MEM = NVML_TEMPERATURE_GPU = 0

    def __init__(self, used_gib: float = 1.0, processes: tuple[tuple[int, int], ...] = ()) -> None:
        super().__init__()
        self.used, self.total = int(used_gib * 2**30), 24 * 2**30
        self.processes = processes

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(used=self.used, free=self.total - self.used, total=self.total)

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> tuple[int, int]:  # noqa: N802
        return (12, 0)

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return "Test Card"

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self.processes]

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def unsupported(*arguments: Any) -> Any:
            raise self.NVMLError("Not Supported")

        return unsupported


def play(monkeypatch: pytest.MonkeyPatch, library: FakeNvml | None, place: str = "engines.telemetry.gpu.nvml") -> None:
    @contextmanager
    def nvml() -> Iterator[Any]:
        yield library

    monkeypatch.setattr(place, nvml)


@pytest.mark.parametrize(("slots", "seen_gib"), [(4, 19.9), (8, 24.6)])
def test_the_estimate_is_within_five_percent_of_what_llama_cpp_took(slots: int, seen_gib: float) -> None:
    told = estimate(QWEN3_8B, slots=slots, max_seq_len=8192).total_mib / GIB_MIB
    assert told == pytest.approx(seen_gib, rel=0.05)


def test_the_estimate_shows_its_parts() -> None:
    told = estimate(QWEN3_8B, slots=4, max_seq_len=8192)
    assert told.kv_mib == pytest.approx(2 * 36 * 8 * 128 * 2 * 32768 / 2**20)
    assert str(told) == "19.9 GiB (weights 14.1, KV 4.5, compute 0.4, CUDA 1.0)"


def test_the_largest_context_fits_and_one_step_more_does_not() -> None:
    for free in (18_000.0, 24_000.0, 32_000.0):
        largest = largest_context(QWEN3_8B, free, slots=4)
        assert largest > 0
        assert estimate(QWEN3_8B, slots=4, max_seq_len=largest).total_mib <= free
        assert estimate(QWEN3_8B, slots=4, max_seq_len=largest + 256).total_mib > free
    assert largest_context(QWEN3_8B, 10_000.0, slots=4) == 0


def test_a_real_gguf_tells_the_shape_of_its_model() -> None:
    model = smollm2()
    shape = shape_of_gguf(model)
    assert shape is not None
    assert (shape.layers, shape.kv_heads, shape.key_dim, shape.vocabulary) == (30, 3, 64, 49152)
    assert 0.95 < shape.gpu_weight_bytes / model.stat().st_size < 1


def gguf_string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def small_gguf(*, output: bool) -> bytes:
    entries = [("general.architecture", 8, gguf_string("llama"))]
    numbers = {"block_count": 2, "embedding_length": 64, "attention.head_count": 4, "attention.head_count_kv": 2}
    entries += [(f"llama.{name}", 4, struct.pack("<I", value)) for name, value in numbers.items()]
    entries.append(("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 3) + b"".join(map(gguf_string, "abc"))))
    tensors = ["token_embd.weight", "blk.0.attn_q.weight", *(["output.weight"] if output else [])]
    data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    for name, kind, value in entries:
        data += gguf_string(name) + struct.pack("<I", kind) + value
    for number, name in enumerate(tensors):
        data += gguf_string(name) + struct.pack("<IQQIQ", 2, 8, 8, 0, number * 256)
    return data + b"\0" * (-len(data) % 32) + b"\0" * 256 * len(tensors)


def test_embeddings_count_for_the_card_only_where_the_output_is_tied_to_them(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(small_gguf(output=True))
    untied = shape_of_gguf(path)
    assert untied == ModelShape(512, 2, 2, 16, 16, 3)
    path.write_bytes(small_gguf(output=False))
    tied = shape_of_gguf(path)
    assert tied is not None and tied.gpu_weight_bytes == 512


@pytest.mark.parametrize("cut", [3, 4, 20, 60, 200])
def test_a_gguf_cut_anywhere_in_its_header_is_an_error_that_names_it(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(small_gguf(output=True)[:cut])
    with pytest.raises(GgufError, match=r"cut\.gguf"):
        read_gguf(path)


def test_garbage_after_the_magic_does_not_take_all_memory(tmp_path: Path) -> None:
    path = tmp_path / "garbage.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<I", 3) + b"\xff" * 4096)
    with pytest.raises(GgufError):
        read_gguf(path)


def test_a_hugging_face_folder_tells_the_shape_of_its_model(tmp_path: Path) -> None:
    assert shape_of_safetensors(model_folder(tmp_path / "m")) == ModelShape(64, 2, 2, 16, 16, 100)
    (tmp_path / "m" / "config.json").write_text("{}")
    assert shape_of_safetensors(tmp_path / "m") is None


def big(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Engine:
    """An engine with Qwen3-8B's needs."""
    engine = standin(tmp_path, slots=4, **{"max_seq_len": 8192, **changes})
    monkeypatch.setattr(type(engine), "model_shape", lambda self: QWEN3_8B)
    return engine


def test_what_fits_passes_and_what_does_not_is_refused_with_the_context_that_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert vram_check(big(tmp_path, monkeypatch), (600.0, 23_500.0)).status is Status.OK
    refused = vram_check(big(tmp_path, monkeypatch, max_seq_len=32768), (600.0, 23_500.0))
    assert refused.status is Status.FAIL
    assert "weights 14.1" in refused.detail and "would fit with 4 slots" in refused.detail


def test_a_start_that_would_not_fit_never_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, FakeNvml())
    engine = big(tmp_path, monkeypatch, max_seq_len=65536)
    with pytest.raises(EngineError, match="GiB are free"), running(engine, tmp_path / "s.log", ready_timeout_s=5):
        pass
    assert not (tmp_path / "s.log").exists()


def test_another_process_on_the_gpu_stops_a_start_unless_it_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, FakeNvml(processes=((1, 2**30),)))
    refused = cotenant_check(standin(tmp_path), None)
    assert refused.status is Status.FAIL and "pid 1" in refused.detail and "1,024 MiB" in refused.detail
    assert cotenant_check(standin(tmp_path, options={"allow_cotenants": True}), None).status is Status.WARN


def test_memory_and_cotenants_of_a_process_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, FakeNvml())
    with running(standin(tmp_path), tmp_path / "server.log", ready_timeout_s=20) as alive:
        pass
    machine = alive.machine()
    assert machine["vram_before_mib"] == machine["vram_after_mib"] == machine["vram_ready_mib"] == 1024.0
    assert machine["cotenants"] == []


def test_without_nvml_everything_is_unknown_and_nothing_is_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, None)
    assert gpu_inventory() is None and memory_mib() is None and cotenants() is None
    assert [check.status for check in gpu_checks(standin(tmp_path))] == [Status.UNKNOWN]


def test_an_engine_kept_on_the_cpu_is_not_stopped_by_a_full_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, FakeNvml(used_gib=24, processes=((1, 2**30),)))
    for changes in ({"options": {"device": "cpu"}}, {"env": {"CUDA_VISIBLE_DEVICES": ""}}):
        found = list(gpu_checks(big(tmp_path, monkeypatch, **changes)))
        assert Status.FAIL not in [check.status for check in found]


@pytest.mark.parametrize(
    ("told", "cards"), [("0,1", [0, 1]), ("", []), ("-1", []), ("GPU-1a2b", None), ("1,-1,0", [1])]
)
def test_visible_cards_are_read_as_cuda_reads_them(told: str, cards: list[int] | None) -> None:
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": told}) == cards


def test_throttle_reasons_are_words_and_a_new_one_is_not_lost() -> None:
    assert throttle_words(0) == []
    assert throttle_words(0x24) == ["sw_power_cap", "sw_thermal_slowdown"]
    assert throttle_words(0x1001) == ["gpu_idle", "0x1000"]


def test_a_cotenant_that_cannot_be_seen_is_still_named() -> None:
    assert str(CoTenant(0, 7, None, None)) == "pid 7 (not visible from here)"


PLAYED_NVML = """
import time
NVMLError = RuntimeError
NVML_CLOCK_SM = NVML_CLOCK_MEM = NVML_TEMPERATURE_GPU = 0
class M: used, free, total = 2**30, 2**30, 2**31
def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlDeviceGetCount(): return 8
def nvmlDeviceGetHandleByIndex(i): return i
def nvmlDeviceGetMemoryInfo(h): return M
def nvmlDeviceGetPowerUsage(h): return 250000 if h == 3 else 75000
def nvmlDeviceGetTotalEnergyConsumption(h): return int(time.monotonic() * 250000)
def nvmlDeviceGetCurrentClocksThrottleReasons(h): return 4 if h == 3 else 64
def nvmlDeviceGetUtilizationRates(h): raise NVMLError
def nvmlDeviceGetClockInfo(h, k): return 2000
def nvmlDeviceGetTemperature(h, k): return 61
"""


def readings(out: Path, atleast: int) -> list[dict[str, Any]]:
    """What the meter has written, once it is so many rows."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and (not out.exists() or out.read_text().count("\n") < atleast):
        time.sleep(0.05)
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.fixture
def eight_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with eight cards, as the meter's process sees it: the load is on card 3, and the others idle, too hot."""
    (tmp_path / "pynvml.py").write_text(PLAYED_NVML)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("engines.telemetry.meter._cards", lambda gpus: True)


@pytest.mark.usefixtures("eight_cards")
def test_the_meter_writes_readings_in_its_own_process_until_it_is_left(tmp_path: Path) -> None:
    out = tmp_path / "gpu.jsonl"
    with metering(out, [3], hz=50) as measured:
        assert measured
        rows = readings(out, 5)
    assert len(rows) >= 5
    stamps = [row["t_ns"] for row in rows]
    assert stamps == sorted(stamps)
    (card,) = rows[0]["gpus"]
    assert (card["power_w"], card["memory_used_mib"], card["throttle"]) == (250.0, 1024.0, ["sw_power_cap"])
    assert card["util_percent"] is None


@pytest.mark.usefixtures("eight_cards")
@pytest.mark.parametrize(("told", "cards"), [("3", [3]), ("3,5", [3, 5]), ("GPU-1a2b", list(range(8)))])
def test_only_the_cards_that_the_engine_uses_are_metered(tmp_path: Path, told: str, cards: list[int]) -> None:
    engine, out = standin(tmp_path, env={"CUDA_VISIBLE_DEVICES": told}), tmp_path / "gpu.jsonl"
    with running(engine, tmp_path / "server.log", ready_timeout_s=20, gpu_log=out):
        rows = readings(out, 1)
    assert [card["index"] for card in rows[0]["gpus"]] == cards


def test_without_nvml_the_meter_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engines.telemetry.meter._cards", lambda gpus: False)
    with metering(tmp_path / "gpu.jsonl") as measured:
        assert not measured
    assert not (tmp_path / "gpu.jsonl").exists()


def test_an_engine_that_is_shown_no_card_is_not_metered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, FakeNvml(), "engines.telemetry.meter.nvml")
    with metering(tmp_path / "gpu.jsonl", []) as measured:
        assert not measured
    assert not (tmp_path / "gpu.jsonl").exists()


def test_the_wheel_never_counts_as_on_the_gpu() -> None:
    assert not create(EngineConfig(name="w", kind="llama_cpp_wheel", model=Path("m.gguf"))).on_gpu()
