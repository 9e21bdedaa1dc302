"""Every package that is imported is declared in pyproject.toml."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("driver", "engines", "load", "locustfiles", "nightly", "records", "reporting", "scoring", "workloads")
NAMES = {"pynvml": "nvidia-ml-py", "huggingface_hub": "huggingface-hub"}
"""Modules that are not called as their package is."""
OF_ANOTHER_ENVIRONMENT = {"math_verify"}
"""Optional; `driver.math_verify_worker` says so where it is missing."""


def imported(path: Path) -> set[str]:
    """Top-level names that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def declared(*extras: str) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    return {re.split(r"[\[<>=!~; ]", line)[0].lower().replace("_", "-") for line in wanted}


def undeclared(folders: tuple[str, ...], known: set[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    ours = {path.stem for path in ROOT.iterdir()}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in imported(path) - sys.stdlib_module_names - ours - OF_ANOTHER_ENVIRONMENT:
                if NAMES.get(name, name).lower() not in known:
                    found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return found


def test_the_product_declares_every_package_that_it_imports() -> None:
    assert undeclared(PRODUCT, declared("demo")) == {}


def test_the_tests_declare_every_package_that_they_import() -> None:
    known = declared("demo", "browser", "test") | {"werkzeug"}
    assert undeclared(("tests",), known) == {}
