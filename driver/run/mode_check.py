"""What read-back and probe show to be another thing than the profile asks for is not measured."""

from __future__ import annotations

from driver.errors import BenchError, ExitCode
from driver.profile.read import Profile
from records import JsonObject


def refuse_disproved(state: JsonObject, profile: Profile, name: str) -> None:
    """Stop before measuring an engine that is not what the profile asks for.

    Args:
        state: engine.json as far as it is known, with `asked`, `readback` and `probe`.
        profile: what is asked.
        name: the engine's name.

    Raises:
        BenchError: naming what was disproved (exit code 3), unless the profile says `on_probe_failure = "void"`.
    """
    found = disproved(state, fixed_length=any(cell.fixed_length for cell in profile.cells))
    if found and profile.on_probe_failure == "refuse":
        how = 'mend the engine, or set on_probe_failure = "void" to run it all the same'
        raise BenchError(f"{name}: {'; '.join(found)}; {how}", ExitCode.VOID)


def disproved(state: JsonObject, *, fixed_length: bool) -> list[str]:
    """What an engine was asked to be and provably is not. What it can't tell is not in here: the audit shows it."""
    asked, readback, probed = state["asked"], state.get("readback") or {}, state.get("probe") or {}
    found = []
    context = readback.get("context_per_slot")
    if context is not None and context < asked["max_seq_len"]:
        found.append(f"each slot has {context:,} tokens of context, {asked['max_seq_len']:,} were asked for")
    slots = readback.get("slots")
    if slots is not None and slots != asked["slots"]:
        found.append(f"it runs {slots} slots, {asked['slots']} were asked for")
    if probed.get("thinking") is True and not asked["thinking"]:
        found.append("it thinks although thinking is off")
    if fixed_length and probed.get("fixed_length") is False:
        found.append("it does not obey a fixed output length")
    if probed.get("cache_hit") is True and not asked["cache"]:
        found.append("it answers from its prompt cache although cold prompts are asked for")
    if probed.get("sampling_accepted") is False:
        found.append("it refuses the sampling that the profile asks for")
    return found
