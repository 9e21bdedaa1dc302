"""Collects what ran, from the manifest and each engine's read-back, for the report."""

from __future__ import annotations

from typing import Any

from records import JsonObject
from scoring.runs import Run


def engine_card(run: Run, engine: str) -> JsonObject:
    """Facts of one engine, from its newest process: {role, kind, model, build, context_per_slot, slots, ...}."""
    rounds = run.rounds.get(engine, [])
    state: JsonObject = next((round_.state for round_ in reversed(rounds) if round_.state), {})
    readback, asked = state.get("readback") or {}, state.get("asked") or {}
    weights = state.get("weights") or {}
    section: JsonObject = next((e for e in run.profile.get("engines") or [] if e.get("name") == engine), {})
    return {
        "role": "baseline" if engine == run.baseline else "candidate",
        "kind": state.get("kind") or section.get("kind"),
        "model": readback.get("model") or state.get("model"),
        "build": readback.get("build") or (state.get("provenance") or {}).get("build"),
        "context_per_slot": readback.get("context_per_slot"),
        "context_asked": asked.get("context_per_slot") or asked.get("max_seq_len") or run.profile.get("max_seq_len"),
        "slots": readback.get("slots"),
        "weights_sha256": weights.get("sha256"),
        "weights_source_sha256": weights.get("source_sha256"),
        "chat_template_sha256": readback.get("chat_template_sha256"),
        "rounds": len(rounds),
        "ready_s": [round_.state.get("ready_s") for round_ in rounds],
    }


def provenance(run: Run) -> JsonObject:
    """{profile, host, versions, git, seeds, workloads, sampling, engines: {argv, env, asked, build}, commands}."""
    manifest, profile = run.manifest, run.profile
    path = manifest.get("profile_path")
    return {
        "profile": profile.get("name"),
        "profile_path": path,
        "profile_sha256": manifest.get("profile_sha256"),
        "started": manifest.get("created_utc"),
        "host": manifest.get("host"),
        "versions": manifest.get("versions"),
        "git": manifest.get("git"),
        "seeds": manifest.get("seeds"),
        "order": manifest.get("order"),
        "workloads": manifest.get("workloads"),
        "sampling": profile.get("sampling"),
        "thinking": profile.get("thinking"),
        "cache": profile.get("cache"),
        "max_seq_len": profile.get("max_seq_len"),
        "objectives": profile.get("objectives"),
        "engines": {engine: _engine(run, engine) for engine in run.engines},
        "commands": manifest.get("commands")
        or [
            *([f"enginebench run {path}"] if path else []),
            f"enginebench compare {run.folder.run_id}",
        ],
    }


def _engine(run: Run, engine: str) -> JsonObject:
    states: list[Any] = [round_.state for round_ in run.rounds.get(engine, []) if round_.state]
    state: JsonObject = states[-1] if states else {}
    keys = ("argv", "env", "asked", "base_url", "weights", "provenance", "log_findings", "machine", "probe", "readback")
    return {key: state.get(key) for key in keys}
