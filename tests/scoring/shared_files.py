"""Where the tests' data files are: a folder beside the repository, or ENGINEBENCH_SHARED."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(os.environ.get("ENGINEBENCH_SHARED", Path(__file__).parents[3] / "shared"))


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"no {name} in {SHARED} (set ENGINEBENCH_SHARED)")
    return path


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shared(name).read_text(encoding="utf-8").split("\n") if line.strip()]
