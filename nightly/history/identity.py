"""What must be equal before two runs may be compared: the host, an engine's setup, and the load of a cell."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from records import JsonObject, section_name, workload_name

_GPU_KEYS = re.compile(
    r"name|driver.*|vbios|compute_capability|memory_mib|mig.*|ecc.*|power_limit.*|(max|limit|lock|app).*"
)
"""The facts of a GPU that change only when somebody changes them; readings such as a temperature are not among them."""


def host_fingerprint(manifest: Mapping[str, Any]) -> JsonObject:
    """Driver, kernel, GPU, clocks and CPU of a manifest's host, flat. A fact that was not read is None."""
    host = manifest.get("host") or {}
    mhz = host.get("cpu_mhz_max")
    found: JsonObject = {
        "kernel": host.get("kernel"),
        "cpu": host.get("cpu"),
        "cores": host.get("cores"),
        # Some kernels report the same limit with a few MHz more or less.
        "cpu_mhz_max": round(mhz / 100) * 100 if isinstance(mhz, int | float) else None,
    }
    gpus = host.get("gpu")
    found["gpus"] = len(gpus) if isinstance(gpus, list) else None
    for index, gpu in enumerate(gpus if isinstance(gpus, list) else []):
        for key, value in sorted(gpu.items()):
            if _GPU_KEYS.fullmatch(key) and (value is None or isinstance(value, str | int | float)):
                found[f"gpu{index}.{key}"] = value
    return found


def cell_loads(manifest: Mapping[str, Any]) -> dict[str, str]:
    """For each cell, a hash of all that shapes its load: the same hash means that the same was asked.

    The engines' binaries, arguments and options are left out on purpose: a new build under the same load is what a
    nightly comparison is for.
    """
    profile = manifest.get("profile") or {}
    shared = {key: profile.get(key) for key in ("sampling", "max_seq_len", "thinking", "cache", "seed")}
    workloads = manifest.get("workloads") or {}
    loads = {}
    for cell in profile.get("cells") or []:
        workload = str(cell.get("workload", ""))
        # More rounds change the certainty of a figure, not the figure.
        asked = {key: value for key, value in cell.items() if key not in ("name", "rounds")}
        prompts = (workloads.get(workload_name(workload)) or {}).get("sha256")
        text = json.dumps([shared, asked, prompts], sort_keys=True, separators=(",", ":"))
        loads[section_name(cell)] = hashlib.sha256(text.encode()).hexdigest()
    return loads


def engine_setup(engine_json: Mapping[str, Any]) -> JsonObject:
    """What an engine was given and must have had in both runs: weights, slots, context, thinking, cache."""
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
    """The differences of two fingerprints, in words. Known against unknown is a difference: it can't be verified."""
    return [
        f"{key} {_word(before.get(key))} -> {_word(after.get(key))}"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]


def setup_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The differences of two setups where both are known (an engine that can't tell is not a change)."""
    return [
        f"{key} {_word(before[key])} -> {_word(after[key])}"
        for key in sorted(before)
        if before[key] is not None and after.get(key) is not None and before[key] != after[key]
    ]


def _word(value: Any) -> str:
    text = "unknown" if value is None else str(value)
    return text[:12] if re.fullmatch(r"[0-9a-f]{64}", text) else text
