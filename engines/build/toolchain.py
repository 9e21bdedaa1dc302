"""The toolchain for llama.cpp: compilers, CUDA architectures, flags."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from engines.base import EngineError

DEFAULT_CUDA_ARCH = "120"  # RTX 5090, the reference card
MIN_CUDA = {"120": (12, 8), "100": (12, 8), "90": (11, 8), "89": (11, 8)}
CUDA_HOME = "/usr/local/cuda/bin"
EXTENSIONS = {"avx2": "AVX2", "fma": "FMA", "f16c": "F16C", "bmi2": "BMI2", "avx512f": "AVX512"}
"""CPU flag -> llama.cpp's option. AMX is left out: some virtual machines advertise it and trap on it."""


def compiler() -> str:
    """The version line of the C++ compiler.

    Raises:
        EngineError: the compiler or cmake is missing.
    """
    for name in ("cmake", "c++"):
        if shutil.which(name) is None:
            raise EngineError(f"build: no {name} on PATH; install it (Debian: apt-get install build-essential cmake)")
    return subprocess.run(["c++", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def find_nvcc() -> str:
    """The path of the CUDA compiler: from PATH, or where its installer puts it.

    Raises:
        EngineError: there is none.
    """
    path = shutil.which("nvcc") or shutil.which("nvcc", path=CUDA_HOME)
    if path is None:
        raise EngineError("build: no nvcc on PATH; install the CUDA toolkit, or build for the CPU with --cpu")
    return path


def nvcc_version(path: str, arches: list[str]) -> str:
    """The version of a CUDA compiler, such as 12.8.

    Raises:
        EngineError: it is too old for one of the architectures.
    """
    output = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    release = re.search(r"release (\d+)\.(\d+)", output)
    version = (int(release[1]), int(release[2])) if release else (0, 0)
    for arch in arches:
        needed = MIN_CUDA.get(arch.rstrip("af"), (11, 0))
        if version < needed:
            raise EngineError(
                f"build: nvcc {version[0]}.{version[1]} is too old for CUDA architecture {arch}: "
                f"{needed[0]}.{needed[1]} or newer is needed"
            )
    return f"{version[0]}.{version[1]}"


def arches(asked: tuple[str, ...], cards: list[dict[str, Any]]) -> list[str]:
    """CUDA architectures: the given ones, else those of the cards, else the reference card's.

    Raises:
        EngineError: a given architecture is invalid.
    """
    if asked:
        for arch in asked:
            if not re.fullmatch(r"\d{2,3}[af]?", arch):
                raise EngineError(
                    f"build: --cuda-arch {arch}: a number such as 120 (RTX 5090) or 90 (H200) was expected"
                )
        return list(asked)
    seen = {gpu["compute_capability"].replace(".", "") for gpu in cards if gpu["compute_capability"]}
    return sorted(seen) or [DEFAULT_CUDA_ARCH]


def cmake_flags(arches: list[str]) -> list[str]:
    """Portable flags: the vector extensions that this CPU has, by name, and CUDA for the architectures given."""
    flags = ["CMAKE_BUILD_TYPE=Release", "GGML_NATIVE=OFF", "LLAMA_CURL=OFF", "LLAMA_BUILD_UI=OFF"]
    flags += ["LLAMA_USE_PREBUILT_UI=OFF", "LLAMA_BUILD_WEBUI=OFF", "LLAMA_BUILD_TESTS=OFF", "LLAMA_BUILD_EXAMPLES=OFF"]
    flags += ["BUILD_SHARED_LIBS=OFF", "GGML_CCACHE=ON" if shutil.which("ccache") else "GGML_CCACHE=OFF"]
    cpu = _cpu_flags()
    flags += [f"GGML_{option}={'ON' if name in cpu else 'OFF'}" for name, option in EXTENSIONS.items()]
    if arches:
        flags += ["GGML_CUDA=ON", f"CMAKE_CUDA_ARCHITECTURES={';'.join(arches)}"]
    return flags


def _cpu_flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return set()
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return set(line.partition(":")[2].split())
