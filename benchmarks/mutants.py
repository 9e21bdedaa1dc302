"""Mutation testing: how many small faults in the judging and the stream modules do the tests notice?

    python -m benchmarks.mutants [MODULE ...] [--each 12] [--seed 1] [--json FILE]

For each module a seeded sample of mutants (a number off by one, `<` for `<=`, `and` for `or`, `+` for `-`, a negated
condition, an emptied loop, another exception) is made in a copy of the last commit, and the module's tests run on each:
a mutant that they pass has survived. Must be: over 90% of those that change what the module does are killed. Those
that change nothing are in EQUIVALENT with the reason.

cosmic-ray makes the mutants and keeps the books. It changes the file itself, so that processes which tests start see
the fault too; mutmut 3 switches its mutants on inside one process. It gets an environment of its own, outside the
project's.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks._harness import ROOT, finish, parser, progress

COSMIC_RAY = "cosmic-ray==8.7.0"
SLOWER, LEAST_TIMEOUT_S = 5.0, 60.0
"""A mutant's tests may take so many times as long as the module's own; one that loops for ever is killed then."""

STATISTICS = "tests/scoring/statistics tests/scoring/test_gate.py tests/scoring/test_gate_answers.py"
STREAM = " ".join(
    f"tests/load/test_{name}.py" for name in ("answer", "sse", "http", "repeated", "response", "usage", "limits")
)
LATENCY = "tests/scoring/test_latency.py tests/scoring/test_steady.py tests/records/test_latency_definitions.py"
VERDICTS = "tests/scoring/test_speed_verdicts.py tests/scoring/test_capacity.py"
NIGHTS = "tests/nightly/test_nightly.py tests/nightly/test_nightly_guard.py"

TARGETS: dict[str, str] = {
    **{
        f"scoring/statistics/{name}.py": STATISTICS
        for name in (
            "answers_gate", "family", "gate", "intervals", "joint_verdict", "proportions", "ratios", "rounds",
            "sequential",
        )
    },
    "nightly/gate_rules.py": NIGHTS,
    "nightly/baseline.py": NIGHTS,
    "nightly/judgement.py": NIGHTS,
    "records/latency_definitions.py": "tests/records tests/scoring/test_latency.py",
    "scoring/speed/latency.py": LATENCY,
    "scoring/speed/output_times.py": LATENCY,
    "scoring/speed/steady.py": LATENCY,
    "scoring/speed/verdicts.py": VERDICTS,
    "scoring/comparability.py": "tests/scoring/test_comparability.py",
    "scoring/audit/order.py": "tests/scoring/audit/test_order.py",
    "load/chat/answer.py": STREAM,
    "load/chat/decode.py": STREAM,
    "load/chat/delta.py": STREAM,
    "load/chat/json.py": STREAM,
    "load/chat/repeated.py": STREAM,
    "load/chat/sse.py": STREAM,
    "load/chat/usage.py": STREAM,
    "load/http/framing.py": STREAM,
    "load/http/response.py": STREAM,
}  # fmt: skip
"""Module: its quick tests."""

SMALL = (
    "NumberReplacer", "AddNot", "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue",
    "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop", "ExceptionReplacer",
    "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub",
    *(f"ReplaceBinaryOperator_{swap}" for swap in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul", "Mod_Mul")),
    *(
        f"ReplaceComparisonOperator_{swap}"
        for swap in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is")
    ),
)  # fmt: skip
"""Faults as people make them. The others of cosmic-ray (`/` for `<<`) raise a TypeError and die of themselves."""

EQUIVALENT: dict[tuple[str, str], str] = {
    ("scoring/statistics/answers_gate.py", 'verdict = "regression" if difference <= 0 else "improved"'): (
        "a difference of 0 never exceeds the margin"
    ),
    ("scoring/statistics/family.py", "p_adjusted, open_claims, rejecting = -1.0, family, True"): (
        "the first step takes the larger one of it and a p-value, which is 0 or more"
    ),
    (
        "scoring/statistics/gate.py",
        "if not before or (recent >= 1 and len(before) < min(recent, 2 * YOUNG_NIGHTS)):",
    ): "one night is never fewer than one",
    (
        "scoring/statistics/gate.py",
        "if abs(effect) > half and side * latest > limit and side * own >= limit / 2:",
    ): "a measured loss of exactly half the threshold does not occur",
    ("scoring/statistics/gate.py", "if abs(effect) >= max(half, limit):"): (
        "a measured loss of exactly the threshold does not occur"
    ),
    ("scoring/statistics/intervals.py", "return 0.5 if abs(distance) < _NO_SPREAD else float(distance <= 0)"): (
        "a distance of 0 has taken the other branch"
    ),
    (
        "scoring/statistics/proportions.py",
        "return 0.0 if abs(numerator) <= 1e-9 else math.copysign(math.inf, numerator)",
    ): "counts less n d, which is off from 0 by rounding or by far more",
    ("scoring/statistics/proportions.py", "low = 0.0 if successes == 0 else max( -1.0, centre - half)"): (
        "Wilson's lower end lies above 0 where there is a success"
    ),
    ("scoring/statistics/sequential.py", "low, high = 0.0, 11.0"): (
        "beyond z = 11 lies 4e-28, less than any level that a look is given"
    ),
    ("scoring/statistics/joint_verdict.py", 'outcome = "above" if evidence.estimate >= 0 else "below"'): (
        "an estimate of 0 has p = 1 and is never rejected"
    ),
    (
        "scoring/statistics/joint_verdict.py",
        "for (evidence, _), difference, equivalence in zip(family, differences, equivalences, strict=False):",
    ): "`holm` gives as many steps as it takes p-values",
    ("load/chat/answer.py", "or len(delta) != 0"): "the slow path, which all events then take, gives the same",
    ("load/chat/decode.py", "elif number > next_lesson:"): "when the shortcut is learnt changes its gain alone",
    ("load/chat/usage.py", "budget[ -1] -= 1"): "the list has one element",
}  # fmt: skip
"""(module, the changed line without its indent): why the mutant does what the module does."""


@dataclass(frozen=True)
class Mutant:
    """One small fault and what became of it."""

    module: str
    line: int
    operator: str
    before: str
    after: str
    survived: bool
    timed_out: bool
    """Its tests were ended: it loops for ever, or the machine was too busy. It counts as killed, and is shown apart."""

    @property
    def equivalent(self) -> str | None:
        """Why it changes nothing; None where it does."""
        return EQUIVALENT.get((self.module, self.after.strip()))


def main() -> None:
    asked = _parse()
    unknown = sorted(set(asked.modules) - set(TARGETS))
    if unknown:
        raise SystemExit(f"no tests are named for {', '.join(unknown)}; known are {', '.join(TARGETS)}")
    modules = asked.modules or list(TARGETS)
    mutants: list[Mutant] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        program = _cosmic_ray(asked.tool)
        tree = Path(scratch) / "tree"
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(tree)], check=True)
        for module in modules:
            with progress(f"{module}, {asked.each} mutants"):
                found = test_module(program, tree, module, asked.each, asked.seed)
            mutants += found
            killed, survived, equivalent = _counts(found)
            print(f"{module}: {killed} killed, {survived} survived, {equivalent} equivalent", flush=True)
            _show_survivors(found)
    _show(mutants)
    finish(asked.json, {"mutants": [asdict(mutant) | {"equivalent": mutant.equivalent} for mutant in mutants]})


def test_module(program: Path, tree: Path, module: str, each: int, seed: int) -> list[Mutant]:
    """Make a sample of a module's mutants in `tree`, and run its tests on each."""
    session, config = tree / "session.sqlite", tree / "mutants.toml"
    session.unlink(missing_ok=True)
    command = f"{sys.executable} -m pytest -x -q -p no:cacheprovider -p no:randomly {TARGETS[module]}"
    started = time.monotonic()
    clean = subprocess.run(command.split(), cwd=tree, capture_output=True, text=True)
    if clean.returncode:
        raise SystemExit(f"{module}: its tests fail without a mutant:\n{clean.stdout[-1500:]}")
    timeout_s = max(LEAST_TIMEOUT_S, SLOWER * (time.monotonic() - started))
    config.write_text(
        f"[cosmic-ray]\nmodule-path = {json.dumps(module)}\ntimeout = {timeout_s:.0f}\nexcluded-modules = []\n"
        f'test-command = {json.dumps(command)}\n[cosmic-ray.distributor]\nname = "local"\n'
    )

    def cosmic_ray(step: str) -> None:
        subprocess.run([str(program), step, str(config), str(session)], cwd=tree, check=True, capture_output=True)

    cosmic_ray("init")
    _sample(session, (tree / module).read_text(), f"{seed}/{module}", each)
    cosmic_ray("exec")
    with sqlite3.connect(session) as books:
        rows = books.execute(
            "select start_pos_row, operator_name, test_outcome, worker_outcome, diff, output from mutation_specs"
            " join work_results using (job_id) order by start_pos_row"
        ).fetchall()
    return [
        Mutant(
            module,
            line,
            operator.removeprefix("core/"),
            *_change(diff or ""),
            survived="SURVIVED" in str(outcome).upper(),
            timed_out=output == "timeout",
        )
        for line, operator, outcome, worker, diff, output in rows
        if "NORMAL" in str(worker).upper()
    ]


def _sample(session: Path, source: str, seed: str, each: int) -> None:
    """Leave `each` small mutants in the books, none of them where it changes nothing (`_idle_parts`)."""
    idle = list(_idle_parts(ast.parse(source)))
    with sqlite3.connect(session) as books:
        jobs = books.execute(
            "select job_id, operator_name, start_pos_row, start_pos_col from mutation_specs"
            " order by start_pos_row, start_pos_col, operator_name, occurrence, operator_args"
        ).fetchall()
        small = [
            job
            for job, operator, row, column in jobs
            if operator.removeprefix("core/") in SMALL and not any(start <= (row, column) < end for start, end in idle)
        ]
        kept = set(random.Random(seed).sample(small, min(each, len(small))))
        dropped = [(job,) for job, *_ in jobs if job not in kept]
        for table in ("work_items", "mutation_specs"):
            books.executemany(f"delete from {table} where job_id = ?", dropped)


def _idle_parts(tree: ast.Module) -> Iterable[tuple[tuple[int, int], tuple[int, int]]]:
    """Start and end, (line, column), of what changes no result.

    They are annotations, which nothing evaluates, decorators (slots, caches), and the `*` before keyword arguments.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments) and node.kwonlyargs and not node.vararg:
            last, first = (node.posonlyargs + node.args)[-1:], node.kwonlyargs[0]
            for before in last:
                yield (before.end_lineno or 0, before.end_col_offset or 0), (first.lineno, first.col_offset)
        decorators = getattr(node, "decorator_list", [])
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None), *decorators):
            if isinstance(part, ast.expr):
                yield (part.lineno, part.col_offset), (part.end_lineno or 0, part.end_col_offset or 0)


def _change(diff: str) -> tuple[str, str]:
    """The line before and after, out of a unified diff of one line."""
    lines = diff.splitlines()
    before = [line[1:].strip() for line in lines if line.startswith("-") and not line.startswith("---")]
    after = [line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++")]
    return " / ".join(before), " / ".join(after)


def _cosmic_ray(tool: str | None) -> Path:
    """The program, from `--tool` or an environment of its own in the cache."""
    if tool:
        return Path(tool)
    home = Path.home() / ".cache" / "enginebench" / COSMIC_RAY.replace("==", "-")
    program = home / "bin" / "cosmic-ray"
    if not program.exists():
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        subprocess.run([str(home / "bin" / "pip"), "install", "--quiet", COSMIC_RAY], check=True)
    return program


def _show(mutants: list[Mutant]) -> None:
    print("\n| module | mutants | killed | survived | equivalent | timed out |\n| --- | --- | --- | --- | --- | --- |")
    for module in dict.fromkeys(mutant.module for mutant in mutants):
        own = [mutant for mutant in mutants if mutant.module == module]
        print(f"| {module} | {len(own)} | {' | '.join(map(str, _counts(own)))} | {_timed_out(own)} |")
    killed, survived, equivalent = _counts(mutants)
    judged = killed + survived
    print(f"| all | {len(mutants)} | {killed} | {survived} | {equivalent} | {_timed_out(mutants)} |")
    share = 100 * killed / max(judged, 1)
    print(f"\nkilled: {killed} of {judged} that are not equivalent ({share:.1f}%), must be > 90%")


def _show_survivors(mutants: list[Mutant]) -> None:
    for mutant in mutants:
        if mutant.survived and not mutant.equivalent:
            print(f"  line {mutant.line}, {mutant.operator}\n  - {mutant.before}\n  + {mutant.after}", flush=True)


def _counts(mutants: list[Mutant]) -> tuple[int, int, int]:
    """(killed, survived, equivalent)."""
    survived = [mutant for mutant in mutants if mutant.survived]
    equivalent = [mutant for mutant in survived if mutant.equivalent]
    return len(mutants) - len(survived), len(survived) - len(equivalent), len(equivalent)


def _timed_out(mutants: list[Mutant]) -> int:
    return sum(mutant.timed_out for mutant in mutants)


def _parse() -> Any:
    options: argparse.ArgumentParser = parser(__doc__)
    options.add_argument("modules", nargs="*", metavar="MODULE")
    options.add_argument("--each", type=int, default=12, help="mutants of each module")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--tool", help="a cosmic-ray program that is there already")
    return options.parse_args()


if __name__ == "__main__":
    main()
