"""Compares stored runs with two trees of this program and lists every figure that differs.

    python -m benchmarks.stored_runs OLD_TREE RUN...

OLD_TREE is another checkout with its own `.venv`. Each run is copied first. Figures that agree to 1e-9 count as equal:
a sum in another order has other last digits.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CODE = """
import json, sys
from pathlib import Path
from records import RunFolder
from scoring.compare import compare
print(json.dumps(compare(RunFolder(Path(sys.argv[1])), created="stored")))
"""


def compared(tree: Path, run: Path) -> dict[str, Any]:
    """The comparison of a run as a tree computes it."""
    command = [str(tree / ".venv/bin/python"), "-c", CODE, str(run)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True)
    comparison: dict[str, Any] = json.loads(done.stdout)
    return comparison


def differences(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """The figures, the answers and the failed checks that differ, one line each."""
    rows = {(row["cell"], row["metric"]): row["engines"] for row in new["performance"]}
    for row in old["performance"]:
        for engine, figure in row["engines"].items():
            before, after = figure["value"], rows.get((row["cell"], row["metric"]), {}).get(engine, {}).get("value")
            if not _equal(before, after):
                yield f"{row['cell']} {row['metric']} {engine}: {before} -> {after}"
    answers = {row["cell"]: row["engines"] for row in new["quality"]}
    for row in old["quality"]:
        for engine, counts in row["engines"].items():
            for name in ("correct", "n", "truncated", "no_answer", "errors"):
                after = answers.get(row["cell"], {}).get(engine, {}).get(name)
                if counts.get(name) != after:
                    yield f"{row['cell']} {name} {engine}: {counts.get(name)} -> {after}"
    failed = [
        {(r["check"], r["engine"], r["cell"]) for r in each["audit"] if r["status"] == "fail"} for each in (old, new)
    ]
    for change, checks in (("passes now", failed[0] - failed[1]), ("fails now", failed[1] - failed[0])):
        yield from (
            f"{check} ({engine}, {cell or 'all cells'}): {change}" for check, engine, cell in sorted(checks, key=str)
        )


def _equal(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is after
    return abs(before - after) <= 1e-9 * max(abs(before), abs(after))


def main() -> None:
    """Print the differences of every run; exit code 1 where there are any."""
    tree, *runs = map(Path, sys.argv[1:])
    found = False
    for run in runs:
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / run.name
            shutil.copytree(run, copy)
            for line in differences(compared(tree, copy), compared(ROOT, copy)):
                found = True
                print(f"{run.name}: {line}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
