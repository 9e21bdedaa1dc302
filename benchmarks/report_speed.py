"""Time, memory and size of the reports of 2 engines x 6 cells x 5,000 requests.

    python -m benchmarks.report_speed [--requests 5000] [--from-records]

Must hold: under 30 s and 1 GB on 2 cores, the page under 5 MB, the Markdown under 60 KB. What is timed is one
process, its start included: one that reads the comparison and writes Markdown, HTML and JUnit; with --from-records the
command `compare`, which first scores, audits and compares 128 chunks of each request.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.scoring_speed import build
from tests.reporting.report_builders import example

ROOT = Path(__file__).resolve().parents[1]
CELLS = [f"{scenario}.{load}" for scenario in ("single", "concurrent_4", "concurrent_8") for load in ("short", "gsm8k")]
ERROR = {"kind": "silence_timeout", "message": "no byte for 30 s"}
LIMIT_S, LIMIT_MIB, LIMIT_HTML, LIMIT_MARKDOWN = 30.0, 1024.0, 5_000_000, 60_000

RENDER = """
import sys
from pathlib import Path
from records import read_json
from reporting.html.page import html
from reporting.junit import junit
from reporting.markdown import markdown
path = Path(sys.argv[1])
comparison = read_json(path)
for suffix, render in ((".md", markdown), (".html", html), (".xml", junit)):
    path.with_suffix(suffix).write_text(render(comparison), encoding="utf-8")
"""


def large(requests: int) -> dict[str, Any]:
    """The example, with as many cells, requests, series and problems as a long run has."""
    rng = np.random.default_rng(1)
    comparison: dict[str, Any] = example()
    metrics = [row for row in comparison["performance"] if row["cell"] == "single.perf-medium"]
    checks = [row for row in comparison["audit"] if row["cell"] in (None, "single.perf-medium")]
    problem = comparison["problems"][0]
    engines = list(comparison["engines"])
    comparison |= {"performance": [], "audit": [], "requests": [], "problems": []}
    series: list[dict[str, Any]] = []
    for cell in CELLS:
        scenario, _, workload = cell.partition(".")
        place = {"cell": cell, "scenario": scenario, "workload": workload}
        comparison["performance"] += [row | place for row in metrics]
        comparison["audit"] += [row | {"cell": row["cell"] and cell} for row in checks]
        for engine in engines:
            ttft, tpot = rng.lognormal(3, 0.4, requests), rng.lognormal(2, 0.2, requests)
            comparison["requests"] += [
                {
                    "engine": engine, "round": 1, "cell": cell, "id": f"{engine}-{cell}-{i}", "phase": "measure",
                    "prompt_id": f"p-{i}", "ttft_ms": round(float(ttft[i]), 4), "tpot_ms": round(float(tpot[i]), 4),
                    "e2e_ms": round(float(ttft[i] + 127 * tpot[i]), 4), "completion_tokens": 128,
                    "status": "ok" if i % 500 else "error", "error": None if i % 500 else ERROR,
                }
                for i in range(requests)
            ]  # fmt: skip
            times = np.linspace(0, 600, 1000).round(3).tolist()
            series.append(
                {
                    "engine": engine, "cell": cell, "round": 1, "steady_s": [[1.0, 590.0]],
                    "in_flight": {"t_s": times, "n": rng.integers(3, 5, 1000).tolist()},
                    "tokens": {"bin_s": 3.0, "tok_s": rng.normal(300, 20, 200).round(3).tolist()},
                    "distributions": {},
                }
            )  # fmt: skip
        if workload == "gsm8k":
            words = "We work it out, step by step, with care. " * 40
            for i in range(1319):
                told = {
                    engine: problem["engines"][engine]
                    | {"completion": f"{words} {engine} {i}", "completion_chars": len(words) + 20}
                    | {"correct": rng.random() < 0.9, "answer": str(i)}
                    for engine in engines
                }
                comparison["problems"].append(problem | place | {"prompt_id": f"gsm8k-{i:04}", "engines": told})
    comparison["series"] = {"cells": series, "gpu": []}
    return comparison


def render(scratch: Path, requests: int) -> list[str]:
    """The command that reports on a large comparison, which is written here."""
    path = scratch / "comparison.json"
    path.write_text(json.dumps(large(requests)), encoding="utf-8")
    print(f"comparison: {path.stat().st_size / 1e6:.1f} MB, {len(CELLS) * 2 * requests:,} requests")
    return [sys.executable, "-c", RENDER, str(path)]


def from_records(scratch: Path, requests: int) -> list[str]:
    """The command that compares a large run, which is written here, and reports on it."""
    users = {"single": 1, "concurrent_4": 4, "concurrent_8": 8}
    cells = [(f"{scenario}.{load}", n) for scenario, n in users.items() for load in ("perf-short", "perf-medium")]
    folder = build(scratch / "run", requests, 128, cells)
    size = sum(path.stat().st_size for path in folder.path.rglob("requests.jsonl"))
    print(f"records: {size / 1e6:.0f} MB, {len(cells) * 2 * requests:,} requests")
    return [sys.executable, "run_bench.py", "compare", str(folder.path)]


def main() -> int:
    """Print the figures; 1 where a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--from-records", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        made = from_records if given.from_records else render
        command = made(Path(scratch), given.requests)
        start = time.monotonic()
        # `compare` ends with 3: these records are of no fair run.
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - start
        assert done.returncode in (0, 3), done
        path = next(Path(scratch).rglob("comparison*.html"))
        mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        html, markdown = (path.with_suffix(suffix).stat().st_size for suffix in (".html", ".md"))
    found = [
        ("seconds", seconds, LIMIT_S), ("peak MiB", mib, LIMIT_MIB), ("HTML MB", html / 1e6, LIMIT_HTML / 1e6),
        ("Markdown KB", markdown / 1e3, LIMIT_MARKDOWN / 1e3),
    ]  # fmt: skip
    for name, value, limit in found:
        print(f"{name:<12} {value:8.2f}   limit {limit:g}   {'ok' if value < limit else 'BROKEN'}")
    return int(any(value >= limit for _, value, limit in found))


if __name__ == "__main__":
    sys.exit(main())
