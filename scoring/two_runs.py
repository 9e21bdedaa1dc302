"""Two runs as one: engines of both under labels of their own, and what their manifests disagree on as audit rows."""

from __future__ import annotations

from typing import Any

from records import JsonObject, section_name, workload_name
from scoring.audit.model import Status
from scoring.runs import Round, Run, profile_cells

_HOST = ("cpu", "cores", "kernel", "cpu_mhz_max")
_CELL = ("requests", "duration_s", "samples", "max_tokens", "fixed_length", "users", "warmup", "options")


class UnknownEngineError(ValueError):
    """An engine that was asked for is not in its run."""


def merged(a: Run, b: Run, engine_a: str | None = None, engine_b: str | None = None) -> Run:
    """The engines of both runs, labelled `engine@run`; the baseline is A's (or `engine_a`).

    With an engine named, only that one is taken from its run.

    Raises:
        UnknownEngineError: a named engine is not in its run.
        ValueError: both are the same engine of the same run, or the runs have no cell in common.
    """
    tag_a, tag_b = a.folder.run_id, b.folder.run_id
    if tag_a == tag_b:
        tag_a, tag_b = f"{tag_a}:a", f"{tag_b}:b"
    rounds: dict[str, list[Round]] = {}
    for run, only, tag in ((a, engine_a, tag_a), (b, engine_b, tag_b)):
        if only is not None and only not in run.engines:
            raise UnknownEngineError(f"{run.folder.path}: has no engine {only!r}; it has {', '.join(run.engines)}")
        for engine in run.engines if only is None else [only]:
            label = f"{engine}@{tag}"
            rounds[label] = [Round(life.folder, life.state, label) for life in run.rounds.get(engine, [])]
    engines = list(rounds)
    if len(engines) < 2 or a.folder.path.resolve() == b.folder.path.resolve():
        raise ValueError(f"{a.folder.path} and {b.folder.path}: two different runs are needed")
    profile = a.profile | {"baseline": engines[0], "rounds": None}
    cells = [cell for cell in a.cells if cell in b.cells]
    if not cells:
        raise ValueError(f"{a.folder.path} and {b.folder.path}: have no cell in common")
    return Run(a.folder, a.manifest | {"profile": profile}, engines, rounds, cells)


def manifest_rows(a: Run, b: Run, engine_a: str | None = None, engine_b: str | None = None) -> list[JsonObject]:
    """What two manifests must agree on, one row each: model, prompts, sampling, context, load, GPU, host.

    With an engine named, the model is that engine's: what else its run has is not compared.

    Another GPU, other prompts, sampling or load void the comparison; another kernel or CPU is a warning where there is
    a GPU, since the engine runs on that, and a failure where there is none.
    """
    engine = f"{a.folder.run_id} / {b.folder.run_id}"
    gpu_a, gpu_b = (_gpus(run) for run in (a, b))
    rows = [
        _equal(engine, "runs: sampling", a.profile.get("sampling"), b.profile.get("sampling")),
        _equal(engine, "runs: context", a.profile.get("max_seq_len"), b.profile.get("max_seq_len")),
        _equal(engine, "runs: thinking", a.profile.get("thinking"), b.profile.get("thinking")),
        _equal(engine, "runs: cache", a.profile.get("cache"), b.profile.get("cache")),
        _equal(engine, "runs: model", _weights(a, engine_a), _weights(b, engine_b)),
        _equal(engine, "runs: GPU", gpu_a, gpu_b, none_is_known="host" in a.manifest and "host" in b.manifest),
    ]
    hosts = [{key: (run.manifest.get("host") or {}).get(key) for key in _HOST} for run in (a, b)]
    row = _equal(engine, "runs: host", *hosts)
    if row["status"] == Status.FAIL and gpu_a:
        row["status"] = Status.WARN.value
    rows.append(row)
    for cell in [cell for cell in a.cells if cell in b.cells]:
        workload = workload_name(str(a.cell_profile(cell).get("workload") or cell.partition(".")[2]))
        prompts = [((run.manifest.get("workloads") or {}).get(workload) or {}).get("sha256") for run in (a, b)]
        rows.append(_equal(engine, "runs: prompts", *prompts, cell=cell))
        loads = [{key: _section(run, cell).get(key) or None for key in _CELL} for run in (a, b)]
        rows.append(_equal(engine, "runs: load", *loads, cell=cell))
    return rows


def _section(run: Run, cell: str) -> JsonObject:
    return next((section for section in profile_cells(run.profile) if section_name(section) == cell), {})


def _weights(run: Run, only: str | None) -> list[str] | None:
    found: set[str | None] = set()
    for engine, lives in run.rounds.items():
        for life in lives if only in (None, engine) else ():
            weights = life.state.get("weights") or {}
            found.add(weights.get("source_sha256") or weights.get("sha256"))
    known = sorted(sha for sha in found if sha is not None)
    return known if known and len(known) == len(found) else None


def _gpus(run: Run) -> list[Any] | None:
    gpus = (run.manifest.get("host") or {}).get("gpu")
    if not gpus:
        return None
    return [{key: gpu.get(key) for key in ("name", "driver", "vbios", "power_limit_w", "max_sm_mhz")} for gpu in gpus]


def _equal(
    engine: str, check: str, a: Any, b: Any, *, cell: str | None = None, none_is_known: bool = False
) -> JsonObject:
    if a == b and (a is not None or none_is_known):
        status, evidence = Status.PASS, "none in both" if a is None else f"equal: {_told(a)}"
    elif none_is_known or (a is not None and b is not None):
        status, evidence = Status.FAIL, _difference(a, b)
    else:
        status, evidence = Status.UNKNOWN, "not recorded in both runs"
    return {"check": check, "engine": engine, "cell": cell, "status": status.value, "evidence": evidence}


def _difference(a: Any, b: Any) -> str:
    if isinstance(a, dict) and isinstance(b, dict):
        keys = [key for key in sorted({*a, *b}) if a.get(key) != b.get(key)]
        return "; ".join(f"{key} {_told(a.get(key))} against {_told(b.get(key))}" for key in keys)
    return f"{_told(a)} against {_told(b)}"


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_told(item)}" for key, item in value.items() if item is not None)
    if isinstance(value, list):
        return " + ".join(map(_told, value))
    text = str(value)
    return text[:12] if len(text) == 64 else text
