"""Helpers for engines that are scripts in their own Python environment, given by the script's path."""

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
    path = shutil.which(str(Path(wanted).expanduser()))
    if path is None:
        raise EngineError(
            f"{name}: no executable {wanted!r}; {install} in a separate environment, and set `binary` to its path"
        )
    return path


def environment(threads: int | None) -> dict[str, str]:
    """The environment of such an engine: no downloads, and a number of compute threads (None: its default)."""
    return {"HF_HUB_OFFLINE": "1", **({"OMP_NUM_THREADS": str(threads)} if threads else {})}


def package_versions(script: str, *packages: str) -> dict[str, str | None]:
    """Versions of packages in a script's environment; empty if they can't be determined."""
    try:
        first = Path(script).read_bytes().split(b"\n", 1)[0].decode()
        python = first.removeprefix("#!").strip() if first.startswith("#!") else ""
        if not Path(python).is_file():
            python = str(Path(script).parent / "python")
        process = subprocess.run(
            [python, "-c", _ASK, *packages], capture_output=True, text=True, timeout=60, check=True
        )
        versions: dict[str, str | None] = json.loads(process.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return versions
