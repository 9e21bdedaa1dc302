"""Rejects an engine whose read-back or probe contradicts the profile, and names the remedy."""

from __future__ import annotations

from collections.abc import Iterable

from driver.errors import BenchError, ExitCode
from driver.profile.read import Profile
from records import JsonObject
from scoring.comparability import engine_changes, engine_facts


def refuse_disproved(state: JsonObject, profile: Profile, name: str) -> None:
    """Stop before measuring an engine that is not what the profile asks for.

    Args:
        state: engine.json as far as it is known, with `asked`, `readback` and `probe`.
        profile: what is asked.
        name: the engine's name.

    Raises:
        BenchError: naming each contradiction and its remedy (exit code 3), unless the profile says
            `on_probe_failure = "void"`.
    """
    contradictions = disproved(state, fixed_length=any(cell.fixed_length for cell in profile.cells))
    if contradictions and profile.on_probe_failure == "refuse":
        anyway = 'on_probe_failure = "void" measures it all the same and marks the comparison void'
        error = BenchError(f"{name}: {'; '.join(contradictions)}; {anyway}", ExitCode.VOID)
        error.profile_must_change = True
        raise error


def refuse_changed(state: JsonObject, earlier: Iterable[JsonObject], profile: Profile, name: str) -> None:
    """Stop before measuring an engine that is not the one that the run has measured before.

    Args:
        state: engine.json as far as it is known, with `readback` and `weights`.
        earlier: engine.json of the engine's other processes in this run.
        profile: what is asked.
        name: the engine's name.

    Raises:
        BenchError: naming each difference (exit code 2), unless the profile says `on_probe_failure = "void"`.
    """
    now = _identity(state)
    for before in earlier:
        if before.get("readback") and not before.get("refused"):
            changes = engine_changes(_identity(before), now)
            if changes and profile.on_probe_failure == "refuse":
                what = f"{name}: not the engine that this run has measured before ({'; '.join(changes)})"
                raise BenchError(f"{what}; finish the run with that one, or start a new run", ExitCode.USAGE)


def _identity(state: JsonObject) -> JsonObject:
    provenance = state.get("provenance") or {}
    return engine_facts(state) | {
        "build": (state.get("readback") or {}).get("build"),
        "binary": provenance.get("sha256") or provenance.get("identity") or provenance.get("version"),
    }


def disproved(state: JsonObject, *, fixed_length: bool) -> list[str]:
    """What the engine provably is although the profile asks for something else, each with its remedy in brackets.

    What the engine does not report is not in here: the audit shows it as unknown.
    """
    asked, readback, probed = state["asked"], state.get("readback") or {}, state.get("probe") or {}
    found = []
    context, slots = readback.get("context_per_slot"), readback.get("slots")
    if context is not None and context < asked["max_seq_len"]:
        remedy = f"set max_seq_len = {context}, or start it with more context"
        found.append(
            f"each slot has {context:,} tokens of context; the profile asks for {asked['max_seq_len']:,} ({remedy})"
        )
    if slots is not None and asked["slots"] is not None and slots != asked["slots"]:
        found.append(f"the server runs {slots} slots; the profile asks for {asked['slots']} (set slots = {slots})")
    if probed.get("thinking") is True and not asked["thinking"]:
        off = "request_extras = { chat_template_kwargs = { enable_thinking = false } }"
        found.append(f"it thinks although thinking is off (set thinking = true, or {off})")
    if fixed_length and probed.get("fixed_length") is False:
        own = "give its own word for ignore_eos in request_extras"
        found.append(f"it does not obey a fixed output length (set fixed_length = false in the cells, or {own})")
    if probed.get("cache_hit") is True and not asked["cache"]:
        cold = "request_extras = { cache_prompt = false }, or start it without a prefix cache"
        found.append(
            f"it answers from its prompt cache; the profile asks for cold prompts (set cache = true, or {cold})"
        )
    if probed.get("sampling_accepted") is False:
        notes = "; ".join(probed.get("notes") or [])
        why = f": {notes}" if notes else ""
        found.append(f"it refuses the sampling that the profile asks for{why} (take those keys out of [sampling])")
    return found
