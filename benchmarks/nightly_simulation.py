"""Thirty nights through the real command: which does it fail, against the truth?

    python -m benchmarks.nightly_simulation [--seed N] [--nights N] [--baseline last-good|window:7|pinned] [--keep DIR]

Every night is a run folder of synthetic records (2 engines x 5 rounds x 2 cells, 2% noise from round to round, and a
share of it from night to night) in which known things happen: slow-downs of one engine, a fix, a new driver that makes
everything slower, a void night, a wild night that its second measurement does not bear out, a new build. The command
scores, audits, compares, keeps, judges and confirms them; only the measuring is replaced (`--measured`).
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from records import RunFolder
from tests.builders import RunBuilder, Speed

ROOT = Path(__file__).resolve().parents[1]
ENGINES = ("llama", "xserv")
ROUND_NOISE = 0.02
PROFILE = """
name = "simulated"
baseline = "llama"
rounds = {rounds}
max_seq_len = 8192
[[engines]]
name = "llama"
kind = "remote"
url = "http://127.0.0.1:9"
[[engines]]
name = "xserv"
kind = "remote"
url = "http://127.0.0.1:9"
[[cells]]
scenario = "single"
workload = "perf-short"
requests = 8
max_tokens = 64
fixed_length = true
[[cells]]
scenario = "concurrent_4"
workload = "perf-short"
requests = 16
max_tokens = 64
fixed_length = true
"""


@dataclass
class Truth:
    """What a night really is: engine -> how much slower than at first, whether it must fail, and what happened."""

    slower: dict[str, float] = field(default_factory=dict)
    expect: int = 0
    event: str = ""
    build: str = "b9371"
    driver: str = "570.10"
    wild: float = 0.0
    void: bool = False


def story(nights: int) -> list[Truth]:
    """The truth of each night. No baseline moves past a regression, so each of its nights fails."""
    told = []
    for night in range(1, nights + 1):
        truth = Truth()
        truth.driver = "570.10" if night < 19 else "575.20"
        truth.build = "b9371" if night < 24 else "b9500"
        if night == 8:
            truth.void, truth.expect, truth.event = True, 3, "an engine's context was cut: void"
        if night == 10:
            truth.wild, truth.event = 0.12, "one wild night: 12% slower, gone when measured again"
        if 12 <= night <= 14:
            truth.slower, truth.expect, truth.event = {"xserv": 0.08}, 1, "xserv 8% slower"
        if night == 15:
            truth.event = "xserv fixed"
        if night >= 19:
            truth.slower = {"llama": 0.15, "xserv": 0.15}
        if night == 19:
            truth.event = "new driver, all 15% slower: series broken, not a regression"
        if night == 24:
            truth.event = "llama.cpp b9371 -> b9500, as fast"
        if night >= 27:
            truth.slower, truth.expect, truth.event = {"llama": 0.20, "xserv": 0.15}, 1, "llama 6% slower since b9500+"
        told.append(truth)
    return told


def write_night(path: Path, truth: Truth, created: str, seed: int, rounds: int, night_noise: float) -> RunFolder:
    """One run folder of a night; `wild` applies to xserv."""
    rng = random.Random(f"night/{seed}")
    run = RunBuilder(ENGINES, rounds=rounds, seed=seed)
    run.profile |= {"name": "simulated", "seed": 1}
    run.manifest |= {"created_utc": created}
    run.manifest["host"] |= {
        "gpu": [{"name": "RTX 5090", "driver": truth.driver, "power_limit_w": 575.0, "max_sm_mhz": 3090}]
    }
    shared = 1 + rng.gauss(0, night_noise)
    speeds = {"llama": (17.7, 10.4), "xserv": (28.0, 17.5)}
    for cell, users, requests in (("single.perf-short", 1, 8), ("concurrent_4.perf-short", 4, 16)):
        told = {}
        for engine in ENGINES:
            factor = shared / (1 - truth.slower.get(engine, 0.0))
            factor /= 1 - (truth.wild if engine == "xserv" else 0.0)
            ttft, tpot = (value * factor for value in speeds[engine])
            more: dict[str, Any] = {"users": users, "requests": requests, "run_noise": ROUND_NOISE}
            told[engine] = Speed(ttft, tpot, timings=engine == "llama", **more)
        run.perf(cell, told)
    for (engine, _), state in run.states.items():
        if engine == "llama":
            state["readback"]["build"] = truth.build
        if truth.void:
            state["readback"]["context_per_slot"] = 1024
    return run.write(path)


def simulate(
    work: Path, nights: int, seed: int, baseline: str, rounds: int, night_noise: float, say: Callable[[str], None]
) -> dict[str, int]:
    """Run the nights; returns how many were found, missed and falsely failed."""
    profile = work / "simulated.toml"
    profile.write_text(PROFILE.format(rounds=rounds))
    counts = {"nights": nights, "right": 0, "missed": 0, "false": 0, "suspected first": 0}
    say("| night | truth | expected | exit | first measurement | headline |\n| --- | --- | --- | --- | --- | --- |")
    for night, truth in enumerate(story(nights), start=1):
        created = f"{datetime(2026, 1, 1, 2) + timedelta(days=night):%Y-%m-%dT%H:%M:%SZ}"
        # Two folders: what is measured first, and what a second measurement would give.
        first = write_night(work / f"n{night:02}", truth, created, 1000 * seed + night, rounds, night_noise)
        calm = Truth(truth.slower, build=truth.build, driver=truth.driver)
        second = write_night(
            work / f"n{night:02}-again", calm, created, 7_000_000 + 1000 * seed + night, rounds, night_noise
        )
        command = [
            sys.executable, str(ROOT / "run_bench.py"), "nightly", str(profile), "--history", str(work / "history.db"),
            "--out", str(work), "--baseline", baseline, "--measured", str(first.path), "--measured", str(second.path),
            "--json",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        told: dict[str, Any] = (
            json.loads(done.stdout) if done.stdout else {"headline": done.stderr.strip(), "findings": []}
        )
        seen = sum(f["verdict"] in ("regression", "unconfirmed", "suspected") for f in told["findings"])
        counts["suspected first"] += bool(seen)
        key = "right" if done.returncode == truth.expect else "missed" if truth.expect else "false"
        counts[key] += 1
        mark = "" if key == "right" else f" **{key}**"
        event, code = truth.event or "quiet", f"{done.returncode}{mark}"
        say(f"| {night} | {event} | {truth.expect} | {code} | {seen} slower | {told['headline']} |")
        for folder in (first, second):
            shutil.rmtree(folder.path)
    return counts


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--baseline", default="window:7")
    parser.add_argument("--night-noise", type=float, default=0.005, help="standard deviation from night to night")
    parser.add_argument("--keep", type=Path, help="keep history.db in this folder")
    given = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        counts = simulate(work, given.nights, given.seed, given.baseline, given.rounds, given.night_noise, print)
        print(json.dumps(counts), f"{time.monotonic() - started:.0f} s")
        if given.keep:
            given.keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(work / "history.db", given.keep / "history.db")


if __name__ == "__main__":
    main()
