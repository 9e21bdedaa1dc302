"""Audit checks of an engine's lives: was each what it was asked to be, alone on the machine, and alive to the end?"""

from __future__ import annotations

from scoring.audit import EngineFacts, Finding, engine_check, failed, not_applicable, passed, unknown
from scoring.captures import Round


@engine_check("context per slot")
def context_per_slot(facts: EngineFacts) -> Finding:
    """Each slot has the context that was asked for (llama.cpp divides `-c` by `--parallel`)."""

    def check(life: Round) -> Finding:
        asked_for = life.state.get("asked") or {}
        wanted = (
            asked_for.get("context_per_slot") or asked_for.get("max_seq_len") or facts.run.profile.get("max_seq_len")
        )
        told = (life.state.get("readback") or {}).get("context_per_slot")
        if wanted is None:
            return not_applicable("no context was asked for")
        if told is None:
            return unknown(f"the engine does not tell its context; {wanted:,} tokens were asked")
        if told < wanted:
            return failed(f"each slot has {told:,} tokens, {wanted:,} asked")
        return passed(f"each slot has {told:,} tokens, {wanted:,} asked")

    return facts.each(check)
