"""Decides whether two runs, nights or engines may be compared: the one rule of `compare A B`, nightly and history.

Three kinds of facts must agree: the host, the load of a cell, and the set-up of an engine. An engine's build, binary,
arguments and options may differ: they are what a comparison measures. Facts are flat JSON objects, so the history can
store them. An unknown fact is None.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from records import JsonObject, section_name, workload_name
from records.endpoint import CHAT

CLOCK_TOLERANCE_MHZ = 60
"""Some kernels report the same CPU clock limit a few MHz higher or lower; older histories store it in steps of 100."""

_GPU_FACTS = re.compile(
    r"name|driver.*|vbios|compute_capability|memory_mib|mig.*|ecc.*|power_limit.*|(max|limit|lock|app).*"
)
"""Facts of a GPU that change only when somebody changes them, unlike readings such as a temperature."""

_SHARED = ("sampling", "max_seq_len", "thinking", "cache", "seed")
_FIRST_KEYS = frozenset(
    {"scenario", "workload", "requests", "duration_s", "warmup", "samples", "max_tokens", "fixed_length", "users"}
    | {"options", "request_timeout_s", "silence_timeout_s", "cores"}
    | {"temperature", "top_p", "top_k", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty", "seed"}
)
"""Keys of a cell and of the sampling in the first version of profiles. The hash of a load always includes them. Later
keys are included only where they are set, so an update of this program breaks no series.
"""

_NOT_LOAD = frozenset({"name", "rounds"})
"""Keys of a cell that do not change a figure: more rounds change only its certainty."""


def host_facts(manifest: Mapping[str, Any]) -> JsonObject:
    """Facts of a manifest's host: kernel, CPU, clocks, and the driver and limits of each GPU."""
    host = manifest.get("host") or {}
    facts: JsonObject = {key: host.get(key) for key in ("kernel", "cpu", "cores", "cpu_mhz_max")}
    gpus = host.get("gpu")
    facts["gpus"] = len(gpus) if isinstance(gpus, list) else None
    for index, gpu in enumerate(gpus if isinstance(gpus, list) else []):
        for key, value in sorted(gpu.items()):
            if _GPU_FACTS.fullmatch(key) and (value is None or isinstance(value, str | int | float)):
                facts[f"gpu{index}.{key}"] = value
    return facts


def is_gpu_fact(name: str) -> bool:
    """Whether a fact of a host is one of its GPUs."""
    return name.startswith("gpu")


def load_facts(manifest: Mapping[str, Any], cell: str) -> JsonObject:
    """Facts of a cell's load: {sampling, max_seq_len, ..., asked: the cell's section, prompts: sha256}."""
    profile = manifest.get("profile") or {}
    sections = (section for section in profile.get("cells") or [] if section_name(section) == cell)
    section: JsonObject = next(sections, {})
    # The cell of a run of plain Locust has no section: its name contains the workload.
    workload = workload_name(str(section.get("workload") or cell.partition(".")[2]))
    asked = {key: value for key, value in section.items() if key not in _NOT_LOAD}
    if (endpoint := _endpoint(profile, section)) != CHAT:
        asked["endpoint"] = endpoint
    if section.get("scenario") == "capacity":
        asked["objectives"] = profile.get("objectives")
    return {
        **{key: profile.get(key) for key in _SHARED},
        "asked": asked,
        "prompts": ((manifest.get("workloads") or {}).get(workload) or {}).get("sha256"),
    }


def _endpoint(profile: Mapping[str, Any], section: JsonObject) -> str:
    workload = (profile.get("workloads") or {}).get(section.get("workload")) or {}
    return str(workload.get("endpoint") or profile.get("endpoint") or CHAT)


def load_hashes(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The hash of each cell's load, for a store that keeps only hashes: equal hashes mean equal loads."""
    hashes = {}
    for section in (manifest.get("profile") or {}).get("cells") or []:
        cell = section_name(section)
        facts = load_facts(manifest, cell)
        shared = {key: facts[key] for key in _SHARED} | {"sampling": _known_to_hashes(facts["sampling"])}
        # The list and its order must not change: stored hashes of earlier versions depend on them.
        document = [shared, _known_to_hashes(facts["asked"]), facts["prompts"]]
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        hashes[cell] = hashlib.sha256(text.encode()).hexdigest()
    return hashes


def _known_to_hashes(section: JsonObject | None) -> JsonObject | None:
    if section is None:
        return None
    return {key: value for key, value in section.items() if key in _FIRST_KEYS or value not in (None, False)}


def engine_facts(engine_json: Mapping[str, Any]) -> JsonObject:
    """How an engine process was set up: weights, model, slots, context, chat template, thinking, cache."""
    asked = engine_json.get("asked") or {}
    weights = engine_json.get("weights") or {}
    readback = engine_json.get("readback") or {}
    return {
        "weights": weights.get("source_sha256") or weights.get("sha256"),
        "model": engine_json.get("model"),
        "slots": readback.get("slots") or asked.get("slots"),
        "context_per_slot": readback.get("context_per_slot") or asked.get("context_per_slot"),
        "chat_template": readback.get("chat_template_sha256"),
        "thinking": asked.get("thinking"),
        "cache": asked.get("cache"),
    }


def host_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Differences of two hosts, as texts. A fact that only one of them knows is a difference: it can't be verified."""
    return [_change(key, before, after) for key in _keys(before, after) if not _same_host_fact(key, before, after)]


def engine_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Differences of two set-ups, as texts. Only facts that both know count: many engines can't report all of them."""
    changed = [
        key
        for key in _keys(before, after)
        if before.get(key) is not None and after.get(key) is not None and before[key] != after[key]
    ]
    # The same weights under a different path are the same model.
    same_weights = before.get("weights") is not None and before.get("weights") == after.get("weights")
    return [_change(key, before, after) for key in changed if not (key == "model" and same_weights)]


def load_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Differences of two loads, as texts; an option that is not set equals its null, zero or empty value."""
    changes = []
    for key in _keys(before, after):
        pair = [load.get(key) for load in (before, after)]
        if any(pair) and all(isinstance(value or {}, Mapping) for value in pair):
            changes += load_changes(*(value or {} for value in pair))
        elif pair[0] != pair[1] and any(pair):
            changes.append(_change(key, before, after))
    return changes


def joined_facts(facts: Iterable[Mapping[str, Any]]) -> JsonObject:
    """Merge the facts of several engine processes: one value where they agree, else the list of their values."""
    joined: dict[str, list[Any]] = {}
    for each in facts:
        for key, value in each.items():
            known = joined.setdefault(key, [])
            if value is not None and value not in known:
                known.append(value)
    return {key: values[0] if len(values) == 1 else values or None for key, values in joined.items()}


def _same_host_fact(key: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    was, now = before.get(key), after.get(key)
    if key == "cpu_mhz_max" and isinstance(was, int | float) and isinstance(now, int | float):
        return abs(was - now) <= CLOCK_TOLERANCE_MHZ
    return bool(was == now)


def _keys(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return sorted({*before, *after})


def _change(key: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    return f"{key} {shown(before.get(key))} -> {shown(after.get(key))}"


def shown(value: Any) -> str:
    """A fact as text: hashes are cut, None is unknown."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(item)}" for key, item in value.items() if item is not None) or "none"
    if isinstance(value, list):
        return " + ".join(map(shown, value)) or "none"
    text = "unknown" if value is None else str(value)
    return text[:12] if re.fullmatch(r"[0-9a-f]{64}", text) else text
