"""Time and memory of scoring and comparing 2 engines x 3 cells x 10,000 requests of 500 chunks.

    python -m benchmarks.scoring_speed [--requests 10000] [--chunks 500] [--keep DIR]

Must hold: at most 30 s and 1 GB on 2 cores. The captures (some 700 MB) are written to a scratch folder first;
what is timed is one process that loads, audits, compares and writes the comparison, its start included.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson

from records import CellFolder, RunFolder
from tests.builders import RunBuilder, Speed

CELLS = (("single.perf-medium", 1), ("concurrent_4.perf-medium", 4), ("concurrent_8.perf-medium", 8))
LIMIT_S, LIMIT_MIB = 30.0, 1024.0

COMPARE = """
import sys
from pathlib import Path
from records import RunFolder
from scoring.compare import compare
import orjson
comparison = compare(RunFolder(Path(sys.argv[1])), created="now")
(Path(sys.argv[1]) / "comparison-now.json").write_bytes(orjson.dumps(comparison))
"""


def inflate(folder: CellFolder, requests: int, chunks: int, users: int, rng: np.random.Generator) -> None:
    """Replace a small capture by a large one of the same shape: a closed loop of `users`."""
    template = orjson.loads(folder.requests.read_bytes().splitlines()[-1])
    words = np.array(["the", "a", "of", "and", "it", "was", "there", "on", "water", "light", "stone", "engine"])
    free = np.full(users, template["sent_ns"], np.int64)
    with folder.requests.open("wb") as out:
        for i in range(requests):
            user = int(free.argmin())
            sent = int(free[user])
            gaps = rng.normal(10e6, 5e5, chunks).astype(np.int64)
            stamps = sent + 20_000_000 + np.cumsum(gaps)
            free[user] = stamps[-1] + 700_000
            text = " ".join(words[rng.integers(0, len(words), chunks)])
            row = template | {
                "id": f"r{i}",
                "user": user,
                "seq": i,
                "phase": "measure",
                "sent_ns": sent,
                "end_ns": int(stamps[-1]) + 200_000,
                "first_token_ns": int(stamps[0]),
                "first_answer_ns": int(stamps[0]),
                "last_token_ns": int(stamps[-1]),
                "chunk_ns": stamps.tolist(),
                "chunk_chars": [5] * chunks,
                "text": text,
                "completion_tokens": chunks,
                "max_tokens": chunks,
                "prompt_id": f"perf-medium-{i}",
                "prompt_sha256": f"{i:064x}",
            }
            out.write(orjson.dumps(row) + b"\n")
    scenario = orjson.loads(folder.scenario.read_bytes())
    scenario["asked"] |= {"requests": requests, "max_tokens": chunks}
    folder.scenario.write_bytes(orjson.dumps(scenario))


def build(path: Path, requests: int, chunks: int, cells: Sequence[tuple[str, int]] = CELLS) -> RunFolder:
    """Write the large run; `cells` are their names with the users of each."""
    run = RunBuilder()
    for cell, users in cells:
        speed = Speed(20, 10, users=users, requests=16)
        run.perf(cell, {"base": speed, "cand": speed})
    folder = run.write(path)
    rng = np.random.default_rng(1)
    for engine in run.engines:
        for cell, users in cells:
            inflate(folder.round(engine, 1).cell(cell), requests, chunks, users, rng)
    return folder


def main() -> int:
    """Build, compare, and print time and memory; exit code 1 above a limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--chunks", type=int, default=500)
    parser.add_argument("--keep", type=Path, help="where to write the captures; else they are removed")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = build((asked.keep or Path(scratch)) / "run", asked.requests, asked.chunks)
        size = sum(p.stat().st_size for p in folder.path.rglob("*.jsonl")) / 2**20
        root = Path(__file__).resolve().parents[1]
        began = time.monotonic()
        subprocess.run([sys.executable, "-c", COMPARE, str(folder.path)], cwd=root, check=True)
        took = time.monotonic() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = (folder.path / "comparison-now.json").stat().st_size / 2**20
    rss = used.ru_maxrss / 1024
    cpu = used.ru_utime + used.ru_stime
    print(f"{size:.0f} MiB of captures, comparison of {out:.1f} MiB")
    print(f"{took:.1f} s ({cpu:.1f} s of CPU), {rss:.0f} MiB at most")
    print(f"must be <= {LIMIT_S:.0f} s and <= {LIMIT_MIB:.0f} MiB")
    return 0 if took <= LIMIT_S and rss <= LIMIT_MIB else 1


if __name__ == "__main__":
    raise SystemExit(main())
