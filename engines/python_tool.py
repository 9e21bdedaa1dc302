"""Engines that are scripts of a Python environment of their own, given by the script's path."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from engines.base import EngineError

_ASK = (
    "import importlib.metadata as m, json, sys\n"
    "def v(n):\n"
    " try: return m.version(n)\n"
    " except m.PackageNotFoundError: return None\n"
    "print(json.dumps({n: v(n) for n in sys.argv[1:]}))"
)


def require_tool(name: str, wanted: str, install: str) -> str:
    """The path of a script, by path or from PATH.

    Raises:
        EngineError: there is none.
    """
    found = shutil.which(str(Path(wanted).expanduser()))
    if found is None:
        raise EngineError(
            f"{name}: no executable {wanted!r}; {install} in an environment of its own, and set `binary` to its path"
        )
    return found


def environment(threads: int | None) -> dict[str, str]:
    """What such an engine is started with: nothing is fetched, and it computes with so many threads (None: its own)."""
    return {"HF_HUB_OFFLINE": "1", **({"OMP_NUM_THREADS": str(threads)} if threads else {})}


def package_versions(script: str, *packages: str) -> dict[str, str | None]:
    """Versions of packages in the environment that holds a script; empty where it can't be asked."""
    try:
        first = Path(script).read_bytes().split(b"\n", 1)[0].decode()
        python = first.removeprefix("#!").strip() if first.startswith("#!") else ""
        if not Path(python).is_file():
            python = str(Path(script).parent / "python")
        done = subprocess.run([python, "-c", _ASK, *packages], capture_output=True, text=True, timeout=60, check=True)
        versions: dict[str, str | None] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return versions
