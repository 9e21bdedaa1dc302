"""Judges stored runs with two trees of this program and lists every figure that differs.

    python -m benchmarks.stored_runs OLD_TREE RUN... [--history FILE]

OLD_TREE is another checkout with its own `.venv`. Compared are the figures, answers and failed checks of `compare`, and
the whole of `score --json`; with --history also the CSV of each profile in it. Runs and history are copied first.
Figures that agree to 1e-9 count as equal: a sum in another order has other last digits.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sqlite3
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


def printed(tree: Path, *arguments: str | Path) -> str:
    """What a command of a tree prints."""
    command = [str(tree / ".venv/bin/python"), "run_bench.py", *map(str, arguments)]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout


def unequal(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Where two JSON values differ, one line each; the version of the grader is named, not compared."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            if key != "grader_version":
                yield from unequal(old.get(key), new.get(key), f"{place}.{key}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from unequal(before, after, f"{place}[{number}]")
    elif not (_equal(old, new) if isinstance(old, float) and isinstance(new, float) else old == new):
        yield f"{place}: {old} -> {new}"


def scores_differ(tree: Path, run: Path) -> Iterator[str]:
    """Differences of `score --json`."""
    old, new = (json.loads(printed(each, "score", run, "--json")) for each in (tree, ROOT))
    yield from (f"score {line}" for line in unequal(old, new))


def histories_differ(tree: Path, history: Path, scratch: Path) -> Iterator[str]:
    """Differences of `history export`, of every profile in the history."""
    with contextlib.closing(sqlite3.connect(history)) as database:
        profiles = [name for (name,) in database.execute("SELECT DISTINCT profile FROM run")]
    for profile in profiles:
        tables = []
        for number, each in enumerate((tree, ROOT)):
            copy = scratch / f"{number}-{profile}.db"
            shutil.copy(history, copy)
            tables.append(printed(each, "history", "--history", copy, "export", "--csv", "-", "--profile", profile))
        if tables[0] != tables[1]:
            yield f"history of {profile}: the exported tables differ"


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", type=Path, metavar="OLD_TREE")
    parser.add_argument("runs", type=Path, nargs="*", metavar="RUN")
    parser.add_argument("--history", type=Path)
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as scratch:
        for run in options.runs:
            copy = Path(scratch) / run.name
            shutil.copytree(run, copy)
            both = compared(options.tree, copy), compared(ROOT, copy)
            lines += [f"{run.name}: {line}" for line in (*differences(*both), *scores_differ(options.tree, copy))]
        if options.history is not None:
            lines += histories_differ(options.tree, options.history, Path(scratch))
    print("\n".join(lines) or "no difference")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
