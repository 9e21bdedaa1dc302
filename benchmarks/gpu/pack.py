"""Packs an engine for a host without a network: installs it into a folder, leaves out what that host need not have, and
prints what was kept.

    python -m benchmarks.gpu.pack benchmarks/gpu/plans/vllm.toml --out .gpu

A plan (TOML) says:

    name          names the archive <name>.tar.xz
    python        the host's Python, such as "3.12"
    requirements  what is installed, without dependencies: name what the host lacks
    sdist         instead of them: one source package of which a folder is packed
    inside        that folder in the source package
    drop          patterns of files that are left out, of paths in the folder
    keep          patterns that are kept although `drop` names them
    cut           libraries whose CUDA code is cut down to the card's (`cut_fatbins.py`)
    capability    the card's compute capability times ten, for `cut`
    strip         patterns of libraries that lose their symbols
    files         further small files, as text by their path

Patterns are as in `fnmatch`: `*` also matches a slash.
"""

from __future__ import annotations

import argparse
import lzma
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.gpu.cut_fatbins import cut_file

# Which platform tag a wheel carries depends on who built it; pip matches each exactly.
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (39, 38, 35, 34, 31, 28, 27, 24, 17, 12, 5)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "any"]
MB = 1e6


def main() -> None:
    """Make one archive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--out", type=Path, default=Path(".gpu"))
    arguments = parser.parse_args()
    plan = tomllib.loads(arguments.plan.read_text(encoding="utf-8"))
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = fetch_source(plan, Path(temporary)) if "sdist" in plan else install(plan, Path(temporary))
        before = sizes(folder)
        drop(folder, plan.get("drop", []), plan.get("keep", []))
        after = sizes(folder)
        slim(folder, plan)
        for name, text in plan.get("files", {}).items():
            (folder / name).write_text(text, encoding="utf-8")
        archive = pack(folder, arguments.out / f"{plan['name']}.tar.xz")
    for name, size in before.most_common(12):
        print(f"{name:40} {size / MB:8.1f} MB, kept {after[name] / MB:8.1f} MB")
    print(f"{'all':40} {before.total() / MB:8.1f} MB, kept {after.total() / MB:8.1f} MB")
    print(f"{archive}: {archive.stat().st_size / MB:.1f} MB")


def install(plan: dict[str, Any], temporary: Path) -> Path:
    """The wheels of the plan, unpacked into one folder; nothing of them is run."""
    folder = temporary / "site"
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    how = ["--no-deps", "--no-compile", "--only-binary=:all:", "--implementation", "cp", *platforms]
    run_pip(["install", *how, "--python-version", plan["python"], "--target", str(folder), *plan["requirements"]])
    return folder


def fetch_source(plan: dict[str, Any], temporary: Path) -> Path:
    """A folder of a source package; nothing of it is built."""
    run_pip(["download", "--no-deps", "--no-binary=:all:", "--dest", str(temporary), plan["sdist"]])
    [archive] = temporary.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        source.extractall(temporary / "source", filter="data")
    [top] = (temporary / "source").iterdir()
    return top / str(plan["inside"])


def run_pip(words: list[str]) -> None:
    """Run pip; its last lines where it fails."""
    done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", *words], capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode(errors="replace")[-2000:])


def drop(folder: Path, patterns: Iterable[str], keep: Iterable[str]) -> None:
    """Remove the files that a pattern names, and folders that hold nothing then."""
    patterns, keep = list(patterns), list(keep)
    for path in sorted(folder.rglob("*"), reverse=True):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif any(fnmatch(name, p) for p in patterns) and not any(fnmatch(name, p) for p in keep):
            path.unlink()


def slim(folder: Path, plan: dict[str, Any]) -> None:
    """Cut CUDA code and strip symbols, as the plan says."""
    for name in plan.get("cut", []):
        done = cut_file(folder / name, folder / name, plan["capability"])
        print(f"{name}: CUDA code {done.kept / MB:.1f} MB kept, {done.cut / MB:.1f} MB cut")
    libraries = [p for pattern in plan.get("strip", []) for p in folder.rglob("*") if fnmatch(p.name, pattern)]
    if libraries and shutil.which("strip"):
        # Some libraries cannot be stripped (a section is in the way); they stay as they are.
        subprocess.run(["strip", "--strip-unneeded", *map(str, libraries)], capture_output=True, check=False)


def pack(folder: Path, archive: Path) -> Path:
    """Everything in the folder, as an archive; owners and times of the files do not travel."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        return info

    with lzma.open(archive, "wb", preset=9) as raw, tarfile.open(fileobj=raw, mode="w") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, arcname=path.name, filter=plain)
    return archive


def sizes(folder: Path) -> Counter[str]:
    """Bytes of the files of each entry of the folder."""
    found: Counter[str] = Counter()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            found[path.relative_to(folder).parts[0]] += path.stat().st_size
    return found


if __name__ == "__main__":
    main()
