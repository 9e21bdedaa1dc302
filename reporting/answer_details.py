"""How the answers were found: strict and flexible, by method, what had none; and how an engine agrees with itself."""

from __future__ import annotations

from dataclasses import dataclass

from records import JsonObject
from reporting.format import UNKNOWN, figure, share
from reporting.view import View


@dataclass(frozen=True)
class Details:
    """One engine's answers to one workload, in words."""

    workload: str
    engine: str
    strict: str
    methods: str
    truncated: str
    no_answer: str
    failed: str
    samples: str


def details(view: View) -> list[Details]:
    """One row for each graded workload and engine."""
    return [
        _details(row, engine, told)
        for row in view.rows("quality")
        for engine in view.engines
        if (told := row["engines"].get(engine))
    ]


def noise_floors(view: View) -> list[str]:
    """How far each engine that was asked more than once agrees with itself: the yardstick for the differences."""
    return [
        f"Noise floor on {row['workload']}: {engine} against itself flips {figure(floor['flips'], 2)} of"
        f" {floor['n']} answers a repeat from right to wrong or back, and changes {share(floor['answers_changed'])}"
        " of what they say."
        for row in view.rows("quality")
        for engine, floor in (row.get("self_agreement") or {}).items()
        if floor
    ]


def _details(row: JsonObject, engine: str, told: JsonObject) -> Details:
    n = told.get("n") or 0
    methods = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in (told.get("by_method") or {}).items())
    return Details(
        workload=str(row["workload"]),
        engine=engine,
        strict=_of(told.get("strict_correct"), n),
        methods=methods or UNKNOWN,
        truncated=_of(told.get("truncated"), n),
        no_answer=_of(told.get("no_answer"), n),
        failed=f"{told.get('errors', UNKNOWN)} failed, {told.get('missing', UNKNOWN)} missing",
        samples=_samples(told),
    )


def _of(count: int | None, n: int) -> str:
    return UNKNOWN if count is None else f"{count} ({share(count / n)})" if n else str(count)


def _samples(told: JsonObject) -> str:
    """avg@k with its clustered standard error and pass@k; empty where each problem was asked once."""
    if not (told.get("pass_at_k") and told.get("problems")):
        return ""
    error = told.get("standard_error")
    words = [f"avg@{told['n'] // told['problems']} {share(told.get('accuracy'))}"]
    words[0] += f" ± {share(error)} (standard error, clustered by problem)" if error is not None else ""
    return ", ".join([*words, *(f"pass@{k} {share(value)}" for k, value in told["pass_at_k"].items() if k != "1")])
