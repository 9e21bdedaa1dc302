"""Collects the files to ship: the project's tracked files, llama.cpp's source, problem sets and wheels. No secrets."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from driver.errors import BenchError
from driver.ship.part import Part, ShipOptions
from driver.ship.secrets import refuse_secrets
from driver.ship.wheels import download_wheels
from engines import EngineError
from engines.build.source import SOURCE_NOTE, Source, find_source
from workloads.problem_sets import default_data_dir


def collect(options: ShipOptions, scratch: Path, say: Callable[[str], None]) -> list[Part]:
    """Collect the parts; small and often changed parts come first.

    Raises:
        BenchError: a file looks like a secret, there is no source, or wheels can't be downloaded.
    """
    project = Part("project", tuple(project_files(options.root)))
    refuse_secrets(project)
    if left := untracked(options.root):
        say(f"left out, because git does not track it: {', '.join(left[:5])}{' ...' if len(left) > 5 else ''}")
    data = options.data_dir or default_data_dir()
    data_files = sorted(p for p in data.glob("*.json*") if p.is_file()) if data.is_dir() else []
    if not data_files:
        say(f"no problem sets in {data}: `enginebench fetch` them first if the other side is to grade answers")
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
    """The tracked files in their present state; in a copy without git, all files except caches and results."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True)
        names = [name for name in listed.stdout.decode().split("\0") if name]
        if not names:
            raise OSError
    except (OSError, subprocess.SubprocessError):
        names = [str(path.relative_to(root)) for path in sorted(root.rglob("*")) if _is_project(path.relative_to(root))]
    for name in names:
        path = root / name
        # git lists a submodule as one name, which is a folder; its tree is a separate part.
        if path.is_file():
            yield name, path


def untracked(root: Path) -> list[str]:
    """Files that are neither tracked nor ignored; empty without git."""
    command = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=root, capture_output=True, check=False)
    return [name for name in done.stdout.decode().split("\0") if name]


def _is_project(path: Path) -> bool:
    hidden = any(part.startswith(".") and part not in {".ci", ".gitignore", ".gitmodules"} for part in path.parts)
    ours = path.parts[0] not in {"bench-out", "third_party", "offline", "build", "dist"}
    return ours and not hidden and "__pycache__" not in path.parts and not path.parts[0].endswith(".egg-info")


def source_part(source: Source) -> Part:
    """llama.cpp's tree at the submodule's place, with a note of its identity (the other host has no git history)."""
    files = []
    for path in sorted(source.path.rglob("*")):
        name = path.relative_to(source.path)
        if path.is_file() and not path.is_symlink() and ".git" not in name.parts and name.name != SOURCE_NOTE:
            files.append((f"third_party/llama.cpp/{name}", path))
    note = {"build": source.build, "identity": source.identity, "kind": source.kind}
    return Part("llama.cpp", tuple(files), {f"third_party/llama.cpp/{SOURCE_NOTE}": json.dumps(note)})
