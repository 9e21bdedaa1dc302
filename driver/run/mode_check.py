"""Rejects an engine whose read-back or probe contradicts the profile, and names the remedy."""

from __future__ import annotations

from collections.abc import Iterable

from driver.errors import BenchError, ExitCode
from driver.profile.read import Profile
from records import JsonObject
from scoring.comparability import engine_changes, engine_facts


def refuse_disproved(state: JsonObject, profile: Profile, name: str) -> None:
    """Refuse to measure an engine that contradicts the profile.

    Args:
        state: engine.json so far, with `asked`, `readback` and `probe`.
        profile: the profile of the run.
        name: the engine's name.

    Raises:
        BenchError: it names each contradiction and its remedy (exit code 3); not with `on_probe_failure = "void"`.
    """
    contradictions = disproved(state, fixed_length=any(cell.fixed_length for cell in profile.cells))
    if contradictions and profile.on_probe_failure == "refuse":
        anyway = 'on_probe_failure = "void" measures it anyway and marks the comparison void'
        error = BenchError(f"{name}: {'; '.join(contradictions)}; {anyway}", ExitCode.VOID)
        error.profile_must_change = True
        raise error


def refuse_changed(state: JsonObject, earlier: Iterable[JsonObject], profile: Profile, name: str) -> None:
    """Refuse to measure an engine that differs from its earlier processes in this run.

    Args:
        state: engine.json so far, with `readback` and `weights`.
        earlier: engine.json of the engine's other processes in this run.
        profile: the profile of the run.
        name: the engine's name.

    Raises:
        BenchError: it names each difference (exit code 2); not with `on_probe_failure = "void"`.
    """
    now = _identity(state)
    for before in earlier:
        if before.get("readback") and not before.get("refused"):
            changes = engine_changes(_identity(before), now)
            if changes and profile.on_probe_failure == "refuse":
                what = f"{name}: differs from the engine that this run has measured before ({'; '.join(changes)})"
                raise BenchError(f"{what}; finish the run with that engine, or start a new run", ExitCode.USAGE)


def _identity(state: JsonObject) -> JsonObject:
    provenance = state.get("provenance") or {}
    return engine_facts(state) | {
        "build": (state.get("readback") or {}).get("build"),
        "binary": provenance.get("sha256") or provenance.get("identity") or provenance.get("version"),
    }


def disproved(state: JsonObject, *, fixed_length: bool) -> list[str]:
    """The contradictions between the engine and the profile, as texts, each with its remedy in parentheses.

    Facts that the engine does not report are left out: the audit shows them as unknown.
    """
    asked, readback, probed = state["asked"], state.get("readback") or {}, state.get("probe") or {}
    contradictions = []
    context, slots = readback.get("context_per_slot"), readback.get("slots")
    if context is not None and context < asked["max_seq_len"]:
        remedy = f"set max_seq_len = {context}, or start it with more context"
        contradictions.append(
            f"each slot has {context:,} tokens of context; the profile asks for {asked['max_seq_len']:,} ({remedy})"
        )
    if slots is not None and asked["slots"] is not None and slots != asked["slots"]:
        contradictions.append(
            f"the server runs {slots} slots; the profile asks for {asked['slots']} (set slots = {slots})"
        )
    if probed.get("thinking") is True and not asked["thinking"]:
        off = "request_extras = { chat_template_kwargs = { enable_thinking = false } }"
        contradictions.append(f"it thinks although thinking is off (set thinking = true, or {off})")
    if fixed_length and probed.get("fixed_length") is False:
        own = "set its own field for ignore_eos in request_extras"
        contradictions.append(
            f"it does not obey a fixed output length (set fixed_length = false in the cells, or {own})"
        )
    if probed.get("cache_hit") is True and not asked["cache"]:
        cold = "request_extras = { cache_prompt = false }, or start it without a prefix cache"
        contradictions.append(
            f"it answers from its prompt cache; the profile asks for cold prompts (set cache = true, or {cold})"
        )
    if probed.get("sampling_accepted") is False:
        notes = "; ".join(probed.get("notes") or [])
        why = f": {notes}" if notes else ""
        contradictions.append(
            f"it refuses the sampling that the profile asks for{why} (take those keys out of [sampling])"
        )
    return contradictions
