"""Imports point one way, and the load process stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = {
    "records": set[str](),
    "workloads": {"records"},
    "scoring": {"records", "workloads"},
    "reporting": {"records", "scoring"},
    "engines": {"records"},
    "load": {"records", "workloads"},
    "locustfiles": {"load"},
    "nightly": {"records", "scoring", "reporting"},
    "driver": {"records", "workloads", "scoring", "reporting", "engines", "nightly"},
    "run_bench": {"driver"},
}
PACKAGES = set(ALLOWED)

THE_CHAT_PARSER = "load.chat"
"""The part of the load that engines may import: the probe reads a stream by the rules of the load."""
THE_LOADS_OPTIONS = {"load.options"}
"""The driver may import the load's table of options, which imports nothing of Locust (tested below)."""


def modules() -> list[Path]:
    found = [ROOT / "records/__init__.py", ROOT / "records/redaction.py", ROOT / "run_bench.py"]
    for package in ALLOWED:
        found += (ROOT / package).rglob("*.py")
    return sorted(found)


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for name in imported(path) - THE_LOADS_OPTIONS:
        if own == "engines" and (name == THE_CHAT_PARSER or name.startswith(f"{THE_CHAT_PARSER}.")):
            continue
        top = name.partition(".")[0]
        if top in PACKAGES and top != own:
            assert top in ALLOWED[own], f"{path.name} imports {name}"
        if top in {"locust", "gevent"}:
            assert own in {"load", "locustfiles"}, f"{path.name} imports {name}, which patches the driver"


@pytest.mark.parametrize(
    ("module", "more"),
    [
        ("records", "orjson"),
        ("workloads", "orjson workloads"),
        ("records.redaction", "orjson"),
        ("load.options", "load orjson"),
    ],
)
def test_what_many_import_is_light(module: str, more: str) -> None:
    code = (
        "import sys; before = set(sys.modules); import " + module + "; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(*sorted(new - sys.stdlib_module_names - {'records'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == more
