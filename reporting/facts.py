"""What ran and on what, as (label, value) pairs for every report."""

from __future__ import annotations

from typing import Any

from records import JsonObject
from reporting.format import UNKNOWN, short_hash
from reporting.view import View


def engine_facts(view: View) -> list[tuple[str, list[str]]]:
    """(label, value per engine) of what is known of the engines; lines that no engine tells are left out."""
    rows: list[tuple[str, list[str]]] = []

    def add(label: str, *keys: str, shown: Any = str) -> None:
        values = []
        for engine in view.engines:
            card = view.card(engine)
            value = next((card[key] for key in keys if card.get(key) is not None), None)
            values.append(UNKNOWN if value is None else shown(value))
        if any(value != UNKNOWN for value in values):
            rows.append((label, values))

    add("engine", "kind")
    add("build", "build")
    add("model", "model")
    add("weights SHA-256", "weights_sha256", shown=short_hash)
    add("source of the weights SHA-256", "weights_source_sha256", shown=short_hash)
    add("chat template SHA-256", "chat_template_sha256", shown=short_hash)
    add("context per slot", "context_per_slot", shown=lambda n: f"{n:,} tokens")
    add("context asked", "context_asked", shown=lambda n: f"{n:,} tokens")
    add("slots", "slots")
    add("rounds", "rounds")
    return rows


def run_facts(view: View) -> list[tuple[str, str]]:
    """(label, value) of what both engines had in common: profile, sampling, host, versions."""
    told = view.provenance
    host = told.get("host") or {}
    gpu = ", ".join(f"{g.get('name')} (driver {g.get('driver')})" for g in host.get("gpu") or [])
    git = told.get("git") or {}
    facts = {
        "profile": told.get("profile"),
        "sampling": _pairs(told.get("sampling")),
        "thinking": _switch(told.get("thinking")),
        "prefix cache": _switch(told.get("cache")),
        "started": told.get("started"),
        "CPU": f"{host['cpu']}, {host.get('cores')} cores" if host.get("cpu") else None,
        "GPU": gpu or None,
        "system": host.get("os"),
        "versions": _pairs(told.get("versions")),
        "commit": f"{git['commit'][:12]}{' (with changes)' if git.get('dirty') else ''}" if git.get("commit") else None,
        "workloads": "; ".join(
            workload_words(name, described) for name, described in (told.get("workloads") or {}).items()
        ) or None,
        "notes": "; ".join(str(note) for note in told.get("notes") or []) or None,
    }  # fmt: skip
    return [(label, str(value)) for label, value in facts.items() if value]


def workload_words(name: str, described: JsonObject) -> str:
    """Which prompts were asked, in words: "gsm8k: 50 prompts (first 50, 8 worked examples), SHA-256 ..."."""
    which = [words] if (words := described.get("subset")) and words != "all" else []
    if shots := described.get("few_shot"):
        which.append(f"{shots} worked example{'s' if shots > 1 else ''}")
    chosen = f" ({', '.join(which)})" if which else ""
    return f"{name}: {described.get('n', '?')} prompts{chosen}, SHA-256 {short_hash(described.get('sha256'))}"


def _pairs(values: JsonObject | None) -> str | None:
    return ", ".join(f"{key} {value}" for key, value in values.items() if value is not None) if values else None


def _switch(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"
