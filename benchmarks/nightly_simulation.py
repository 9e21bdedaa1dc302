"""What the nightly gate finds, and how often it is wrong: sixty nights of thirty figures with a known truth.

    python -m benchmarks.nightly_simulation [--histories N] [--seed N]     judged by the real history and judge
    python -m benchmarks.nightly_simulation --through-command [...]        the same nights through the real command
    python -m benchmarks.nightly_simulation --story [--seed N]             a story from records, through the command

Rounds differ by 2%, nights by 1%, and a weekly cycle adds 1% up and down; each of the thirty figures has its own. A
second measurement shares its night. The truth of a history is one of: nothing happens; each figure loses 5% or 8% in
some night and gets it back 25 nights later; loses 0.3% a night; or gains 10%. Exit code 1 where a figure misses what it
must hold.

`--through-command` runs `enginebench nightly --measured FIRST --measured SECOND --json` for each night, in this
process: it reads run folders whose comparison was judged before (one template; its figures are replaced), keeps,
judges, confirms and reports. The story begins with records: score, audit and compare run in each of its nights.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import math
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

from driver.cli import cli
from nightly.gate_rules import GateRules, parse_choice
from nightly.history.rows import WHOLE_RUN, EngineRow, FigureRow, GateRow, ImportedRun
from nightly.history.store import History
from nightly.judgement import Judge
from nightly.result import Finding
from records import RunFolder, read_json, write_json
from scoring.compare import compare
from tests.builders import RunBuilder, Speed

ROOT = Path(__file__).resolve().parents[1]
NIGHTS, CELLS, ROUNDS, THRESHOLD = 60, 10, 5, 0.03
METRICS = ("output_tok_s", "ttft_ms_p50", "tpot_ms_p50")
ROUND_NOISE, NIGHT_NOISE, WEEKLY_CYCLE = 0.02, 0.01, 0.01
FIXED_AFTER = 25
ENGINES = ("llama", "xserv")
STORY_NIGHTS, STORY_NIGHT_NOISE = 42, 0.005
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
COMMAND_PROFILE = """
name = "sim"
baseline = "llama"
rounds = {rounds}
max_seq_len = 2048
[gate]
metrics = {metrics}
[[engines]]
name = "llama"
kind = "remote"
url = "http://127.0.0.1:9"
{cells}
"""
COMMAND_CELL = """[[cells]]
scenario = "single"
workload = "perf-short"
name = "{cell}"
requests = 4
max_tokens = 8
"""

Loss = Callable[[int, int], float]
"""(night, first night of the change) -> share of speed that is lost, negative for a gain."""


def step(share: float) -> Loss:
    """A loss that begins at once and is fixed FIXED_AFTER nights later."""
    return lambda night, first: share if first <= night < first + FIXED_AFTER else 0.0


def gain(share: float) -> Loss:
    """A gain that stays."""
    return lambda night, first: -share if night >= first else 0.0


def creep(share: float) -> Loss:
    """A loss that grows by a share each night."""
    return lambda night, first: 1 - (1 - share) ** max(0, night - first + 1)


@dataclass
class Simulated:
    """A history of one truth: for each figure the first night of its change, and the nights on which it was red."""

    first: dict[tuple[str, str], int]
    red: dict[tuple[str, str], list[int]]
    red_nights: set[int]


class Machine:
    """Measures nights of one engine: noise of rounds, of nights, and a weekly cycle for each figure."""

    def __init__(self, seed: int, loss: Loss) -> None:
        self.rng = random.Random(seed)
        self.loss = loss
        self.figures = [(f"cell{cell}.perf-short", metric) for cell in range(CELLS) for metric in METRICS]
        self.phase = {figure: self.rng.uniform(0, 7) for figure in self.figures}
        self.first = {figure: self.rng.randrange(21, 32) for figure in self.figures}
        self.night_noise: dict[tuple[str, str], float] = {}

    def measure(self, night: int, run_id: str, kind: str, *, again: bool = False) -> ImportedRun:
        """One measurement; `again` in the same night, with new rounds."""
        if not again:
            self.night_noise = {figure: self.rng.gauss(0, NIGHT_NOISE) for figure in self.figures}
        rows = []
        for cell, metric in self.figures:
            figure = (cell, metric)
            cycle = WEEKLY_CYCLE * math.sin(2 * math.pi * (night + self.phase[figure]) / 7)
            speed = math.log1p(-self.loss(night, self.first[figure])) + self.night_noise[figure] + cycle
            sign = 1 if metric == "output_tok_s" else -1
            values = [100 * math.exp(sign * (speed + self.rng.gauss(0, ROUND_NOISE))) for _ in range(ROUNDS)]
            rows.append(FigureRow("llama", cell, metric, WHOLE_RUN, sum(values) / ROUNDS))
            rows += [FigureRow("llama", cell, metric, number, value) for number, value in enumerate(values, 1)]
        created = f"{datetime(2026, 1, 1, 2) + timedelta(days=night):%Y-%m-%dT%H:%M:%SZ}"
        loads = {cell: "same" for cell, _ in self.figures}
        engines = [EngineRow("llama", "llama_cpp", "b9371", {})]
        return ImportedRun(run_id, created, "sim", "p", {}, "complete", engines, loads, rows, [], run_id, kind)


class Command:
    """`enginebench nightly` on run folders, for one history."""

    def __init__(self, work: Path, machine: Machine) -> None:
        self.work = work
        self.cells = tuple(dict.fromkeys(cell for cell, _ in machine.figures))
        run = RunBuilder(("llama",), rounds=ROUNDS)
        run.profile["name"] = "sim"
        for cell in self.cells:
            run.perf(cell, {"llama": Speed(20, 10, requests=4, tokens=8)})
        self.template = run.write(work / "template")
        self.comparison = compare(self.template, created="20260101T000000Z")
        self.profile = work / "sim.toml"
        cells = "".join(COMMAND_CELL.format(cell=cell) for cell in self.cells)
        self.profile.write_text(COMMAND_PROFILE.format(rounds=ROUNDS, metrics=json.dumps(METRICS), cells=cells))

    def folder(self, night: ImportedRun) -> Path:
        """The folder of a measurement: the template's captures, and a comparison with this night's figures."""
        path = self.work / night.run_id
        path.mkdir()
        (path / "llama").symlink_to(self.template.path / "llama")
        created = {"created_utc": night.created_utc, "run_id": night.run_id}
        write_json(path / "run.json", read_json(self.template.manifest) | created)
        values = {(row.cell, row.metric, row.round): row.value for row in night.figures}
        comparison = copy.deepcopy(self.comparison) | {"run_id": night.run_id}
        comparison["performance"] = [row for row in comparison["performance"] if row["metric"] in METRICS]
        for row in comparison["performance"]:
            figure = row["engines"]["llama"]
            figure["value"] = values[row["cell"], row["metric"], WHOLE_RUN]
            rounds = range(1, ROUNDS + 1)
            figure["rounds"] = {str(n): values[row["cell"], row["metric"], n] for n in rounds}
        write_json(path / "comparison-20260101T000000Z.json", comparison)
        return path

    def night(self, first: ImportedRun, second: ImportedRun) -> list[tuple[str, str]]:
        """Run the command on a night and its second measurement; the (cell, metric) that it calls a regression."""
        folders = [self.folder(first), self.folder(second)]
        said = io.StringIO()
        argv = ["nightly", str(self.profile), "--history", str(self.work / "history.db"), "--out", str(self.work)]
        with contextlib.redirect_stdout(said):
            code = cli([*argv, "--measured", str(folders[0]), "--measured", str(folders[1]), "--json"])
        findings = json.loads(said.getvalue())["findings"]
        red = [(found["cell"], found["metric"]) for found in findings if found["verdict"] == "regression"]
        assert code == int(bool(red)), f"exit code {code} with {len(red)} regressions"
        for folder in folders:
            shutil.rmtree(folder)
        return red


def simulate_by_command(path: Path, seed: int, loss: Loss) -> Simulated:
    """Sixty nights through the command."""
    path.mkdir()
    machine = Machine(seed, loss)
    command = Command(path, machine)
    simulated = Simulated(machine.first, {figure: [] for figure in machine.figures}, set())
    for night in range(1, NIGHTS + 1):
        first = machine.measure(night, f"n{night:02}", "nightly")
        second = machine.measure(night, f"n{night:02}-again", "confirmation", again=True)
        for figure in command.night(first, second):
            simulated.red[figure].append(night)
            simulated.red_nights.add(night)
    return simulated


def simulate(path: Path, seed: int, loss: Loss) -> Simulated:
    """Sixty nights through the history, the judge and the confirmation."""
    machine = Machine(seed, loss)
    cells = tuple(dict.fromkeys(cell for cell, _ in machine.figures))
    choice = parse_choice("series")
    rules = GateRules("sim", "llama", ("llama",), cells, METRICS, dict.fromkeys(cells, 2.0), choice, THRESHOLD)
    simulated = Simulated(machine.first, {figure: [] for figure in machine.figures}, set())
    with History(path) as history:
        for night in range(1, NIGHTS + 1):
            run_id = f"n{night:02}"
            history.add(machine.measure(night, run_id, "nightly"))
            judge = Judge(history, rules)
            findings = judge.night(run_id).findings
            if any(finding.wants_confirmation for finding in findings):
                history.add(machine.measure(night, f"{run_id}-confirm", "confirmation", again=True))
                findings = judge.confirm(run_id, f"{run_id}-confirm", findings)
            red = [(f.cell, f.metric) for f in findings if f.verdict == "regression"]
            for figure in red:
                simulated.red[figure].append(night)
            if red:
                simulated.red_nights.add(night)
            history.add_gates(run_id, [_row(finding) for finding in findings], int(bool(red)))
    return simulated


def _row(f: Finding) -> GateRow:
    low, high = f.ci or (None, None)
    return GateRow(f.engine, f.cell, f.metric, f.baseline, f.ratio, low, high, f.limit, f.verdict, f.evidence, f.since)


def share(flags: list[bool]) -> float:
    """The share of true flags."""
    return sum(flags) / len(flags) if flags else math.nan


def report(name: str, histories: list[Simulated]) -> dict[str, float]:
    """What was found in the histories of one truth."""
    figures = [(h.first[figure], nights) for h in histories for figure, nights in h.red.items()]
    before = [any(night < first for night in nights) for first, nights in figures]
    result = {"figures": len(figures), "red before the change": share(before)}
    if name == "quiet":
        nights = [night in h.red_nights for h in histories for night in range(1, NIGHTS + 1)]
        young = [night in h.red_nights for h in histories for night in range(1, 15)]
        return {"nights": len(nights), "false red nights": share(nights), "of the first 14": share(young)}
    delay = [next((n - first for n in nights if n >= first), None) for first, nights in figures]
    if name.startswith("step"):
        held = [
            all(n in nights for n in range(first + wait, first + FIXED_AFTER))
            for (first, nights), wait in zip(figures, delay, strict=True)
            if wait is not None and wait < FIXED_AFTER
        ]
        after = [sum(n >= first + FIXED_AFTER for n in nights) for first, nights in figures]
        for limit in (1, 2, 3, 5):
            result[f"found within {limit}"] = share([wait is not None and wait < limit for wait in delay])
        result |= {"red until fixed": share(held), "red nights after the fix": sum(after) / len(after)}
    elif name == "creep":
        for lost in (3, 4, 5):
            limit = math.floor(math.log(1 - lost / 100) / math.log(1 - 0.003))
            result[f"found before {lost}% is lost"] = share([wait is not None and wait < limit for wait in delay])
    else:
        nights = [night in h.red_nights for h in histories for night in range(1, NIGHTS + 1)]
        gained = [any(night >= first for night in nights) for first, nights in figures]
        result |= {"red after the gain": share(gained), "false red nights": share(nights)}
    return result


TRUTHS: dict[str, Loss] = {
    "quiet": lambda night, first: 0.0,
    "step 5%": step(0.05),
    "step 8%": step(0.08),
    "creep": creep(0.003),
    "gain": gain(0.10),
}
MUST = {
    ("quiet", "false red nights"): (0.0, 0.01),
    ("step 5%", "found within 3"): (0.80, 1.0),
    ("step 5%", "red until fixed"): (0.995, 1.0),
    ("step 8%", "found within 3"): (0.98, 1.0),
    ("step 8%", "red until fixed"): (0.995, 1.0),
    ("creep", "found before 5% is lost"): (0.80, 1.0),
    ("gain", "red after the gain"): (0.0, 0.01),
}
"""(truth, figure) -> what it must lie between."""


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


def story() -> list[Truth]:
    """The truth of each night of the story. No baseline moves past a regression, so each of its nights fails."""
    truths = []
    for night in range(1, STORY_NIGHTS + 1):
        truth = Truth()
        truth.driver = "570.10" if night < 27 else "575.20"
        truth.build = "b9371" if night < 33 else "b9500"
        if night == 8:
            truth.void, truth.expect, truth.event = True, 3, "an engine's context was cut: void"
        if night == 14:
            truth.wild, truth.event = 0.12, "one wild night: 12% slower, gone when measured again"
        if 18 <= night <= 20:
            truth.slower, truth.expect, truth.event = {"xserv": 0.08}, 1, "xserv 8% slower"
        if night == 21:
            truth.event = "xserv fixed"
        if night >= 27:
            truth.slower = {"llama": 0.15, "xserv": 0.15}
        if night == 27:
            truth.event = "new driver, all 15% slower: series broken, not a regression"
        if night == 33:
            truth.event = "llama.cpp b9371 -> b9500, as fast"
        if night >= 39:
            truth.slower, truth.expect, truth.event = {"llama": 0.22, "xserv": 0.15}, 1, "llama 8% slower since b9500+"
        truths.append(truth)
    return truths


def write_night(path: Path, truth: Truth, created: str, seed: int) -> RunFolder:
    """One run folder of a night; `wild` applies to xserv."""
    rng = random.Random(f"night/{seed}")
    run = RunBuilder(ENGINES, rounds=ROUNDS, seed=seed)
    run.profile |= {"name": "simulated", "seed": 1}
    run.manifest |= {"created_utc": created}
    run.manifest["host"] |= {
        "gpu": [{"name": "RTX 5090", "driver": truth.driver, "power_limit_w": 575.0, "max_sm_mhz": 3090}]
    }
    shared = 1 + rng.gauss(0, STORY_NIGHT_NOISE)
    speeds = {"llama": (17.7, 10.4), "xserv": (28.0, 17.5)}
    for cell, users, requests in (("single.perf-short", 1, 8), ("concurrent_4.perf-short", 4, 16)):
        given = {}
        for engine in ENGINES:
            factor = shared / (1 - truth.slower.get(engine, 0.0))
            factor /= 1 - (truth.wild if engine == "xserv" else 0.0)
            ttft, tpot = (value * factor for value in speeds[engine])
            more: dict[str, Any] = {"users": users, "requests": requests, "run_noise": ROUND_NOISE}
            given[engine] = Speed(ttft, tpot, timings=engine == "llama", **more)
        run.perf(cell, given)
    for (engine, _), state in run.states.items():
        if engine == "llama":
            state["readback"]["build"] = truth.build
        if truth.void:
            state["readback"]["context_per_slot"] = 1024
    return run.write(path)


def tell(work: Path, seed: int, keep: Path | None) -> dict[str, int]:
    """Run the story through the command; counts of nights that were right, missed and falsely failed."""
    profile = work / "simulated.toml"
    profile.write_text(PROFILE.format(rounds=ROUNDS))
    counts = {"nights": STORY_NIGHTS, "right": 0, "missed": 0, "false": 0}
    print("| night | truth | expected | exit | headline |\n| --- | --- | --- | --- | --- |")
    for night, truth in enumerate(story(), start=1):
        created = f"{datetime(2026, 1, 1, 2) + timedelta(days=night):%Y-%m-%dT%H:%M:%SZ}"
        # Two folders: what is measured first, and what a second measurement would give.
        first = write_night(work / f"n{night:02}", truth, created, 1000 * seed + night)
        calm = Truth(truth.slower, build=truth.build, driver=truth.driver)
        second = write_night(work / f"n{night:02}-again", calm, created, 7_000_000 + 1000 * seed + night)
        command = [
            sys.executable, str(ROOT / "run_bench.py"), "nightly", str(profile), "--history", str(work / "history.db"),
            "--out", str(work), "--measured", str(first.path), "--measured", str(second.path), "--json",
        ]  # fmt: skip
        ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        headline = json.loads(ended.stdout)["headline"] if ended.stdout else ended.stderr.strip()
        key = "right" if ended.returncode == truth.expect else "missed" if truth.expect else "false"
        counts[key] += 1
        mark = "" if key == "right" else f" **{key}**"
        print(f"| {night} | {truth.event or 'quiet'} | {truth.expect} | {ended.returncode}{mark} | {headline} |")
        for folder in (first, second):
            shutil.rmtree(folder.path)
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        shutil.copy(work / "history.db", keep / "history.db")
    return counts


def main() -> None:
    """Print the table; exit code 1 where a figure misses what it must hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--histories", type=int, default=20, help="quiet histories; the others are a fifth of it")
    parser.add_argument("--truth", choices=TRUTHS, action="append", help="only this truth; may be repeated")
    parser.add_argument("--through-command", action="store_true", help="judge each night by the real command")
    parser.add_argument("--story", action="store_true", help="run the story through the real command")
    parser.add_argument("--keep", type=Path, help="keep the history of the story in this folder")
    given = parser.parse_args()
    started = time.monotonic()
    missed = False
    with tempfile.TemporaryDirectory() as scratch:
        if given.story:
            counts = tell(Path(scratch), given.seed, given.keep)
            print(json.dumps(counts), f"{time.monotonic() - started:.0f} s")
            raise SystemExit(counts["right"] < counts["nights"])
        for name in given.truth or TRUTHS:
            number = given.histories if name == "quiet" else max(1, given.histories // 5)
            seeds = range(1000 * given.seed, 1000 * given.seed + number)
            one = simulate_by_command if given.through_command else simulate
            histories = [one(Path(scratch) / f"{name}-{seed}", seed, TRUTHS[name]) for seed in seeds]
            for what, value in report(name, histories).items():
                low, high = MUST.get((name, what), (-math.inf, math.inf))
                bad = not low <= value <= high
                missed |= bad
                print(f"{name:8}  {what:28} {value:8.4f}{'  MISSED' if bad else ''}", flush=True)
    print(f"{time.monotonic() - started:.0f} s")
    raise SystemExit(missed)


if __name__ == "__main__":
    main()
