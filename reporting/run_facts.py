"""Collects the facts that every report shows beside the figures: engines, host, answer extraction, failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from records import JsonObject
from reporting.format import UNKNOWN, count, figure, share, short_hash
from reporting.view import View


def engine_facts(view: View) -> list[tuple[str, list[str]]]:
    """(label, value per engine) for each known fact of the engines; facts that no engine reports are left out."""
    rows: list[tuple[str, list[str]]] = []

    def add(label: str, key: str, shown: Callable[[Any], str] = str) -> None:
        values = [view.card(engine).get(key) for engine in view.engines]
        if any(value is not None for value in values):
            rows.append((label, [UNKNOWN if value is None else shown(value) for value in values]))

    add("engine", "kind")
    add("build", "build")
    add("model", "model")
    add("weights SHA-256", "weights_sha256", short_hash)
    add("source of the weights SHA-256", "weights_source_sha256", short_hash)
    add("chat template SHA-256", "chat_template_sha256", short_hash)
    add("context per slot", "context_per_slot", lambda n: f"{n:,} tokens")
    add("context asked", "context_asked", lambda n: f"{n:,} tokens")
    add("slots", "slots")
    add("rounds", "rounds")
    return rows


def run_facts(view: View) -> list[tuple[str, str]]:
    """(label, value) of the facts that all engines share: profile, sampling, host, versions."""
    provenance = view.provenance
    host = provenance.get("host") or {}
    gpu = ", ".join(f"{g.get('name')} (driver {g.get('driver')})" for g in host.get("gpu") or [])
    git = provenance.get("git") or {}
    facts = {
        "profile": provenance.get("profile"),
        "sampling": _pairs(provenance.get("sampling")),
        "thinking": _switch(provenance.get("thinking")),
        "prefix cache": _switch(provenance.get("cache")),
        "started": provenance.get("started"),
        "CPU": f"{host['cpu']}, {host.get('cores')} cores" if host.get("cpu") else None,
        "GPU": gpu or None,
        "system": host.get("os"),
        "versions": _pairs(provenance.get("versions")),
        "commit": f"{git['commit'][:12]}{' (with changes)' if git.get('dirty') else ''}" if git.get("commit") else None,
        "workloads": "; ".join(
            workload_words(name, described) for name, described in (provenance.get("workloads") or {}).items()
        ) or None,
        "notes": "; ".join(str(note) for note in provenance.get("notes") or []) or None,
    }  # fmt: skip
    return [(label, str(value)) for label, value in facts.items() if value]


def workload_words(name: str, described: JsonObject) -> str:
    """The prompts of a workload, as text: "gsm8k: 50 prompts (first 50, 8 worked examples), SHA-256 ..."."""
    which = [words] if (words := described.get("subset")) and words != "all" else []
    if shots := described.get("few_shot"):
        which.append(count(shots, "worked example"))
    chosen = f" ({', '.join(which)})" if which else ""
    return f"{name}: {described.get('n', '?')} prompts{chosen}, SHA-256 {short_hash(described.get('sha256'))}"


def commands(view: View) -> list[str]:
    """The command lines that repeat this comparison."""
    return [str(command) for command in view.provenance.get("commands") or [f"enginebench compare {view.run_id}"]]


def _pairs(values: JsonObject | None) -> str | None:
    return ", ".join(f"{key} {value}" for key, value in values.items() if value is not None) if values else None


def _switch(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"


CANCELLATION_LEAD = (
    "The effect of cancelled requests on the others: figures of the answers that were not cancelled (TTFT: of all),"
    " against the same load without cancellation."
)


def cancellation_notes(view: View) -> list[str]:
    """A text per cell and engine: how many requests were cancelled, and the cell with which they are compared."""
    notes = {}
    for row in view.rows("cancellation"):
        against = f"compared with {row['twin']}" if row["twin"] else "this run has no cell of the same load without it"
        notes[row["cell"], row["engine"]] = (
            f"{row['cell']}, {row['engine']}: {row['cancelled']:,} of {count(row['requests'], 'request')} cancelled"
            f" after {count(row['after_tokens'], 'token')}; {against}"
        )
    return list(notes.values())


FAULTS = {"not_json": "JSON", "function": "functions", "schema": "schema", "values": "values"}
"""What was wrong with answers that should be JSON or tool calls, in a word."""


@dataclass(frozen=True)
class AnswerFacts:
    """How one engine's answers to one workload were extracted and counted, as texts."""

    workload: str
    engine: str
    strict: str
    methods: str
    truncated: str
    no_answer: str
    failed: str
    samples: str


def answer_facts(view: View) -> list[AnswerFacts]:
    """One row for each graded workload and engine."""
    return [
        _answer_facts(row, engine, answers)
        for row in view.rows("quality")
        for engine in view.engines
        if (answers := row["engines"].get(engine))
    ]


def _answer_facts(row: JsonObject, engine: str, answers: JsonObject) -> AnswerFacts:
    n = answers.get("n") or 0
    methods = ", ".join(
        f"{name.replace('_', ' ')} {number}" for name, number in (answers.get("by_method") or {}).items()
    )
    if faults := answers.get("by_fault"):
        methods += "; wrong in " + ", ".join(f"{FAULTS.get(name, name)} {number}" for name, number in faults.items())
    return AnswerFacts(
        workload=str(row["workload"]),
        engine=engine,
        strict=_number_of(answers.get("strict_correct"), n),
        methods=methods or UNKNOWN,
        truncated=_number_of(answers.get("truncated"), n),
        no_answer=_number_of(answers.get("no_answer"), n),
        failed=f"{answers.get('errors', UNKNOWN)} failed, {answers.get('missing', UNKNOWN)} missing",
        samples=_samples(answers),
    )


def _number_of(number: int | None, n: int) -> str:
    return UNKNOWN if number is None else f"{number} ({share(number / n)})" if n else str(number)


def _samples(answers: JsonObject) -> str:
    """avg@k with its clustered standard error and pass@k; empty where each problem was asked once."""
    if not (answers.get("pass_at_k") and answers.get("problems")):
        return ""
    average = f"avg@{answers['n'] // answers['problems']} {share(answers.get('accuracy'))}"
    if (error := answers.get("standard_error")) is not None:
        average += f" ± {share(error)} (standard error, clustered by problem)"
    return ", ".join([average, *(f"pass@{k} {share(value)}" for k, value in answers["pass_at_k"].items() if k != "1")])


def noise_floors(view: View) -> list[str]:
    """A sentence per engine with several rounds: how far it agrees with itself."""
    return [
        f"Noise floor on {row['workload']}: {engine} against itself (A/A) flips {figure(floor['flips'], 2)} of"
        f" {floor['n']} answers per repeat from right to wrong or back, and changes the text of"
        f" {share(floor['answers_changed'])} of them."
        for row in view.rows("quality")
        for engine, floor in (row.get("self_agreement") or {}).items()
        if floor
    ]


@dataclass(frozen=True)
class Failure:
    """Requests of one engine and cell that failed with one kind of error; `message` is the first request's."""

    engine: str
    cell: str
    kind: str
    requests: int
    message: str


def failures(rows: list[JsonObject]) -> list[Failure]:
    """Failed requests counted by engine, cell and kind, the most frequent first."""
    first: dict[tuple[str, str, str], JsonObject] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        key = (str(row["engine"]), str(row["cell"]), _error_kind(row))
        first.setdefault(key, row)
        counts[key] += 1
    return [
        Failure(*key, number, str((first[key]["error"] or {}).get("message") or ""))
        for key, number in counts.most_common()
    ]


def error_words(row: JsonObject) -> str:
    """Kind and message of a failed request's error."""
    message = (row["error"] or {}).get("message")
    return f"{_error_kind(row)}: {message}" if message else _error_kind(row)


def _error_kind(row: JsonObject) -> str:
    return str((row["error"] or {}).get("kind") or "error")
