"""Builds llama.cpp's server and llama-bench, once per key, with portable flags and CUDA for the present card."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.build import toolchain
from engines.base import EngineError
from engines.files import free_at, sha256
from engines.telemetry.gpu import gpu_inventory
from engines.build.source import Source, cache_dir, find_source

TARGETS = ("llama-server", "llama-bench")
NEEDED_BYTES = {False: 2 * 2**30, True: 8 * 2**30}


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """A build's settings. `cuda` None means CUDA if there is a card; `cuda_arch` overrides the card's architecture."""

    cuda: bool | None = None
    cuda_arch: tuple[str, ...] = ()
    source: Path | None = None
    jobs: int | None = None


@dataclass(frozen=True, slots=True)
class BuildResult:
    """A finished build."""

    folder: Path
    provenance: dict[str, Any]

    @property
    def server(self) -> Path:
        return self.folder / "bin" / "llama-server"


Say = Callable[[str], None]


def build(request: BuildRequest, *, say: Say, on_progress: Callable[[int, int], None]) -> BuildResult:
    """Build, or return the same build from the cache.

    Args:
        request: the build's settings.
        say: called with a line for each step.
        on_progress: called with (done, total) steps of the compiler.

    Raises:
        EngineError: no source, compiler, nvcc or disk, a failed build, or a binary that this CPU can't run.
    """
    cards = gpu_inventory() or []
    cuda = request.cuda if request.cuda is not None else bool(request.cuda_arch or cards)
    arches = toolchain.arches(request.cuda_arch, cards) if cuda else []
    source = find_source(request.source, complete=cuda, say=say)
    compiler = toolchain.compiler()
    cuda_compiler = toolchain.find_nvcc() if cuda else None
    nvcc = toolchain.nvcc_version(cuda_compiler, arches) if cuda_compiler else None
    flags = toolchain.cmake_flags(arches)
    identity = json.dumps([source.identity, flags, compiler, nvcc])
    folder = cache_dir() / "build" / hashlib.sha256(identity.encode()).hexdigest()[:16]
    if ready := _read(folder):
        say(f"built already: {ready.server}")
        return ready
    _check_disk(folder, cuda)
    folder.mkdir(parents=True, exist_ok=True)
    say(f"building {source.build} ({'CUDA ' + ', '.join(arches) if cuda else 'CPU'}); log: {folder / 'build.log'}")
    started = time.monotonic()
    # CMake does not search the folder where the CUDA installer puts nvcc.
    env = {**os.environ, **({"CUDACXX": cuda_compiler} if cuda_compiler else {})}
    _compile(source, folder, flags, env, request.jobs, on_progress)
    version = _run_version(folder / "bin" / "llama-server")
    provenance = {
        "source": source.to_dict(),
        "flags": flags,
        "compiler": compiler,
        "nvcc": nvcc,
        "cuda_arch": arches,
        "version": version,
        "sha256": {name: sha256(folder / "bin" / name) for name in TARGETS},
        "seconds": round(time.monotonic() - started, 1),
        "built": time.time(),
    }
    (folder / "provenance.json").write_text(json.dumps(provenance, indent=2), encoding="utf-8")
    return BuildResult(folder, provenance)


def in_tree_command() -> str:
    """The command line that builds a checked-out tree of llama.cpp in its own folder `build`, by the flags above.

    Raises:
        EngineError: no compiler or nvcc.
    """
    toolchain.compiler()
    cards = gpu_inventory() or []
    arches = toolchain.arches((), cards) if cards else []
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    flags = [f"-D{flag}" for flag in toolchain.cmake_flags(arches)]
    flags += [f"-DCMAKE_CUDA_COMPILER={toolchain.find_nvcc()}"] if cards else []
    configure = shlex.join(["cmake", "-S", ".", "-B", "build", *generator, *flags])
    compile_ = shlex.join(["cmake", "--build", "build", "--target", *TARGETS, "-j", str(os.cpu_count() or 1)])
    return shlex.join(["sh", "-c", f"{configure} && {compile_}"])


def find_build(wanted: str | None = None) -> BuildResult | None:
    """The newest finished build of the cache; `wanted` is a part of its source's name, such as b9371."""
    builds = [result for path in (cache_dir() / "build").glob("*/provenance.json") if (result := _read(path.parent))]
    if wanted is not None:
        builds = [result for result in builds if wanted in str(result.provenance["source"]["build"])]
    return max(builds, key=lambda result: float(result.provenance.get("built", 0)), default=None)


def _read(folder: Path) -> BuildResult | None:
    try:
        provenance = json.loads((folder / "provenance.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    result = BuildResult(folder, provenance)
    return result if result.server.exists() else None


def _check_disk(folder: Path, cuda: bool) -> None:
    place, free = free_at(folder)
    if free < NEEDED_BYTES[cuda]:
        raise EngineError(
            f"build: {free / 2**30:.1f} GiB free at {place}, {NEEDED_BYTES[cuda] / 2**30:.0f} GiB are needed; "
            "set ENGINEBENCH_CACHE to a place with more space"
        )


def _compile(
    source: Source,
    folder: Path,
    flags: list[str],
    env: dict[str, str],
    jobs: int | None,
    on_progress: Callable[[int, int], None],
) -> None:
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    tree = folder / "tree"
    configure = ["cmake", "-S", str(source.path), "-B", str(tree), *generator, *(f"-D{flag}" for flag in flags)]
    compile_ = ["cmake", "--build", str(tree), "--target", *TARGETS, "-j", str(jobs or os.cpu_count() or 1)]
    log_path = folder / "build.log"
    with log_path.open("w", encoding="utf-8") as log:
        for step in (configure, compile_):
            log.write("$ " + " ".join(step) + "\n")
            log.flush()
            process = subprocess.Popen(
                step,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    log.write(line)
                    if match := re.match(r"\[(\d+)/(\d+)\]", line):
                        on_progress(int(match[1]), int(match[2]))
                    elif match := re.match(r"\[ *(\d+)%\]", line):
                        on_progress(int(match[1]), 100)
                code = process.wait()
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                process.wait()
                raise
            finally:
                process.stdout.close()
            if code:
                log.flush()
                raise EngineError(f"build: {_why(log_path)}; the log is {log_path}")
    (folder / "bin").mkdir(exist_ok=True)
    for name in TARGETS:
        shutil.copy2(tree / "bin" / name, folder / "bin" / name)
    shutil.rmtree(tree)


def _why(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if any("No space left on device" in line for line in lines):
        return "the disk is full"
    # Git prints "fatal: not a git repository" for every tree without git; it is not the cause of a failure.
    errors = [i for i, line in enumerate(lines) if re.search(r"\b(error|fatal|Error)\b", line) and "git repo" not in line]
    if not errors:
        return (lines or ["failed"])[-1].strip()[:200]
    first = lines[errors[0]].strip()
    # CMake prints the place on the first line, and the error on the next.
    what = " ".join(line.strip() for line in lines[errors[0] + 1 : errors[0] + 3]) if first.startswith("CMake Error") else ""
    return f"{first} {what}".strip()[:300]


def _run_version(server: Path) -> str:
    """The binary's version; running it also proves that this CPU can run it."""
    process = subprocess.run([str(server), "--version"], capture_output=True, text=True, timeout=60)
    if process.returncode == -signal.SIGILL:
        raise EngineError(
            "build: the result ends by SIGILL: this CPU does not run instructions that it advertises; "
            "remove the build and use a host whose /proc/cpuinfo tells the truth"
        )
    text = (process.stdout + process.stderr).strip()
    if process.returncode:
        raise EngineError(f"build: the result does not run: {text[:200] or process.returncode}")
    return next((line for line in text.splitlines() if line.startswith("version")), text.splitlines()[0])
