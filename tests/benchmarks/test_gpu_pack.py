"""What the packer for hosts without a network cuts, drops and keeps."""

from __future__ import annotations

import tarfile
import tomllib
from pathlib import Path

import pytest

from benchmarks.gpu.cut_fatbins import cut, cut_file
from benchmarks.gpu.pack import drop, pack, sizes
from engines.machine.cuda_code import CudaCode, cuda_code
from tests.engines.test_vllm_rs import MACHINE_CODE, PTX, fat_binary

PLANS = sorted((Path(__file__).parents[2] / "benchmarks" / "gpu" / "plans").glob("*.toml"))


def test_only_the_cards_machine_code_stays_and_the_file_keeps_its_length(tmp_path: Path) -> None:
    library, smaller = tmp_path / "lib.so", tmp_path / "cut.so"
    binary = fat_binary((MACHINE_CODE, 80), (MACHINE_CODE, 90), (PTX, 90))
    library.write_bytes(b"\x7fELF" + binary + b"between" + binary + b"end")
    done = cut_file(library, smaller, 90)
    assert cuda_code(smaller) == CudaCode(machine_code=frozenset({90}), ptx=frozenset())
    data = smaller.read_bytes()
    assert len(data) == library.stat().st_size
    assert data[4 + len(binary) :][:7] == b"between" and data.endswith(b"end")
    assert (done.kept, done.cut, done.of_other_cards) == (2 * 96, 4 * 96, 0)


def test_without_machine_code_for_the_card_ptx_stays_that_it_can_translate(tmp_path: Path) -> None:
    library = tmp_path / "lib.so"
    library.write_bytes(fat_binary((MACHINE_CODE, 80), (PTX, 80), (PTX, 100)))
    cut_file(library, library, 90)
    assert cuda_code(library) == CudaCode(machine_code=frozenset(), ptx=frozenset({80}))


def test_code_of_other_cards_alone_is_left_so_that_the_answer_is_no_kernel_image() -> None:
    data = bytearray(fat_binary((MACHINE_CODE, 100), (MACHINE_CODE, 120)))
    assert cut(data, 90).of_other_cards == 1


@pytest.mark.parametrize("broken", [b"\x50\xed\x55\xba", fat_binary((MACHINE_CODE, 90))[:-8]])
def test_what_only_looks_like_a_fat_binary_is_not_touched(broken: bytes) -> None:
    data = bytearray(b"code" + broken)
    assert cut(data, 80).kept == 0 and bytes(data) == b"code" + broken


def test_what_is_dropped_is_gone_with_empty_folders_and_what_is_kept_travels(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name in ("a/tests/x.py", "a/core.so", "a/other.so", "a/code.py", "b/docs/index.md"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text("text")
    drop(site, ["*/tests/*", "*.so", "b/*"], ["a/core.so"])
    assert sizes(site) == {"a": 8} and not (site / "b").exists() and not (site / "a" / "tests").exists()
    archive = pack(site, tmp_path / "out.tar.xz")
    with tarfile.open(archive) as tar:
        assert sorted(member.name for member in tar if member.isfile()) == ["a/code.py", "a/core.so"]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stem)
def test_every_plan_says_what_is_packed_with_versions(plan: Path) -> None:
    values = tomllib.loads(plan.read_text(encoding="utf-8"))
    packed = [values["sdist"]] if "sdist" in values else values["requirements"]
    assert packed and all("==" in word for word in packed)
    # What is cut must be there after the dropping.
    assert set(values.get("cut", [])) <= set(values.get("keep", []))
