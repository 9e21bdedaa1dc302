"""Joins two runs into one: labels the engines of both, and adds audit rows for the facts that must agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from records import JsonObject
from scoring.audit.model import Status
from scoring.comparability import (
    engine_changes,
    engine_facts,
    host_changes,
    host_facts,
    is_gpu_fact,
    joined_facts,
    load_changes,
    load_facts,
    shown,
)
from scoring.runs import Round, Run


class UnknownEngineError(ValueError):
    """A named engine is not in its run."""


def merged(a: Run, b: Run, engine_a: str | None = None, engine_b: str | None = None) -> Run:
    """The engines of both runs, labelled `engine@run`; the baseline is A's (or `engine_a`).

    If an engine is named, only that engine is taken from its run.

    Raises:
        UnknownEngineError: a named engine is not in its run.
        ValueError: both are the same engine of the same run, or the runs have no cell in common.
    """
    tag_a, tag_b = a.folder.run_id, b.folder.run_id
    if tag_a == tag_b:
        tag_a, tag_b = f"{tag_a}:a", f"{tag_b}:b"
    rounds: dict[str, list[Round]] = {}
    manifests: dict[str, JsonObject] = {}
    for run, only, tag in ((a, engine_a, tag_a), (b, engine_b, tag_b)):
        if only is not None and only not in run.engines:
            raise UnknownEngineError(f"{run.folder.path}: has no engine {only!r}; it has {', '.join(run.engines)}")
        for engine in run.engines if only is None else [only]:
            label = f"{engine}@{tag}"
            rounds[label] = [replace(round_, label=label) for round_ in run.rounds.get(engine, [])]
            manifests[label] = run.manifest
    engines = list(rounds)
    if len(engines) < 2 or a.folder.path.resolve() == b.folder.path.resolve():
        raise ValueError(f"{a.folder.path} and {b.folder.path}: two different runs are needed")
    cells = [cell for cell in a.cells if cell in b.cells]
    if not cells:
        raise ValueError(f"{a.folder.path} and {b.folder.path}: have no cell in common")
    return Run(a.folder, a.manifest | {"order": None}, engines, rounds, cells, manifests)


def joined_audit(
    both: Run, together: Iterable[JsonObject], alone: Iterable[tuple[Run, list[JsonObject]]]
) -> list[JsonObject]:
    """The audit of two joined runs, with each failure of a run's own audit: a void run makes the comparison void.

    Args:
        both: the joined run.
        together: the rows of the joined run.
        alone: each run with the rows of its own audit.
    """
    rows = list(together)
    places = {(row["check"], row["engine"], row["cell"]): place for place, row in enumerate(rows)}
    for run, own in alone:
        labels = {
            round_.folder.engine: label
            for label in both.engines
            for round_ in both.rounds[label]
            if both.manifests[label] is run.manifest
        }
        for row in own:
            if row["status"] != Status.FAIL or (row["engine"] in run.engines and row["engine"] not in labels):
                continue
            # A row about the whole run names no engine.
            label = labels.get(row["engine"], row["engine"])
            place = places.get((row["check"], label, row["cell"]))
            if place is None:
                rows.append(row | {"engine": label})
            elif rows[place]["status"] != Status.FAIL:
                rows[place] = row | {"engine": label}
    return rows


def manifest_rows(a: Run, b: Run, engine_a: str | None = None, engine_b: str | None = None) -> list[JsonObject]:
    """Audit rows for the facts that must agree: sampling, context, model, set-up, GPU, host, prompts, load.

    If an engine is named, model and set-up are compared for that engine only. A difference voids the comparison. One
    exception: where there is a GPU, a different kernel or CPU only warns, because the engine runs on the GPU.
    """
    pair = f"{a.folder.run_id} / {b.folder.run_id}"
    asked = (
        ("runs: sampling", [run.profile.get("sampling") or {} for run in (a, b)]),
        ("runs: context", [{"max_seq_len": run.profile.get("max_seq_len")} for run in (a, b)]),
        ("runs: thinking", [{"thinking": run.profile.get("thinking")} for run in (a, b)]),
        ("runs: cache", [{"cache": run.profile.get("cache")} for run in (a, b)]),
    )
    rows = [_row(pair, check, facts, load_changes) for check, facts in asked]
    rows.append(_row(pair, "runs: model", [_weights(a, engine_a), _weights(b, engine_b)], engine_changes))
    rows += _setup_rows(pair, a, b, engine_a, engine_b)
    rows += _host_rows(pair, a, b)
    for cell in [cell for cell in a.cells if cell in b.cells]:
        loads = [load_facts(run.manifest, cell) for run in (a, b)]
        prompts = [{"prompts": load["prompts"]} for load in loads]
        rows.append(_row(pair, "runs: prompts", prompts, engine_changes, cell))
        sections = [load["asked"] and load["asked"] | {"seed": load["seed"]} for load in loads]
        rows.append(_row(pair, "runs: load", sections, load_changes, cell))
    return rows


def _setup_rows(pair: str, a: Run, b: Run, engine_a: str | None, engine_b: str | None) -> list[JsonObject]:
    """One row per engine that both runs have. Two engines may have different set-ups; the same engine may not."""
    rows = []
    for engine in a.engines:
        if engine in b.engines and engine_a in (None, engine) and engine_b in (None, engine):
            setups = [_setup(run, engine) for run in (a, b)]
            rows.append(_row(f"{engine}@{pair}", "runs: set-up", setups, engine_changes))
    return rows


def _host_rows(pair: str, a: Run, b: Run) -> list[JsonObject]:
    hosts = [host_facts(run.manifest) for run in (a, b)]
    gpus, rest = (
        [{key: facts[key] for key in facts if is_gpu_fact(key) is wanted} for facts in hosts]
        for wanted in (True, False)
    )
    gpu_row = _row(pair, "runs: GPU", gpus, host_changes)
    if all(run.manifest.get("host") for run in (a, b)) and not any(gpu.get("gpus") for gpu in gpus):
        gpu_row |= {"status": Status.PASS.value, "evidence": "none in both"}
    host_row = _row(pair, "runs: host", rest, host_changes)
    if host_row["status"] == Status.FAIL and gpus[0].get("gpus"):
        host_row["status"] = Status.WARN.value
    return [gpu_row, host_row]


def _setup(run: Run, engine: str) -> JsonObject:
    return joined_facts(
        engine_facts(state)
        for round_ in run.rounds.get(engine, [])
        for state in (*round_.earlier, round_.state)
        if state
    )


def _weights(run: Run, only: str | None) -> JsonObject:
    """The hashes of all weights of a run; unknown if any of them is unknown."""
    rounds = [round_ for engine, rounds in run.rounds.items() if only in (None, engine) for round_ in rounds]
    hashes = {engine_facts(round_.state)["weights"] for round_ in rounds}
    return {"weights": None if None in hashes else sorted(hashes) or None}


def _row(
    engine: str,
    check: str,
    facts: Sequence[JsonObject],
    changes: Callable[[JsonObject, JsonObject], list[str]],
    cell: str | None = None,
) -> JsonObject:
    """An audit row that compares the facts of both runs by `changes`."""
    before, after = facts
    if differences := changes(before, after):
        status, evidence = Status.FAIL, "; ".join(differences)
    elif all(any(value is not None for value in each.values()) for each in facts):
        status, evidence = Status.PASS, f"equal: {shown(before)}"
    else:
        status, evidence = Status.UNKNOWN, "not recorded in both runs"
    return {"check": check, "engine": engine, "cell": cell, "status": status.value, "evidence": evidence}
