"""Audit checks of the responses: thinking mode, length, errors, and plausible usage."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from records import ErrorKind
from records.wording import count
from scoring.audit.model import (
    CellFacts,
    Finding,
    RoundFacts,
    cell_check,
    failed,
    not_applicable,
    passed,
    unknown,
    warned,
)

CHUNKS_WARN, CHUNKS_FAIL = 1.02, 1.5
"""Chunks with text per token of the usage; above 1 is impossible."""
MOST_TOKENS_A_CHARACTER = 4
"""A character has at most four UTF-8 bytes, and so at most four tokens."""


@cell_check("thinking off")
def thinking_off(facts: CellFacts) -> Finding:
    """No answer holds think text where thinking is off."""
    wanted = bool(facts.run.profile.get("thinking"))

    def check(round_: RoundFacts) -> Finding:
        good = round_.figures.good
        count = int(good["thought"].sum())
        if not len(good):
            return unknown("no request was ok")
        if wanted:
            evidence = f"the profile asks for thinking, and {count} of {len(good)} answers think"
            return not_applicable(evidence) if count else warned(evidence)
        return (
            failed(f"{count} of {len(good)} answers think") if count else passed(f"none of {len(good)} answers thinks")
        )

    return facts.each(check)


@cell_check("not cut at the context")
def not_cut(facts: CellFacts) -> Finding:
    """No answer ended with finish_reason length before its own limit, and no prompt was too long for the context."""

    def check(round_: RoundFacts) -> Finding:
        measured = round_.figures.measured
        refused = measured[measured["context_error"]]
        if len(refused):
            return failed(f"{count(len(refused), 'prompt was', 'prompts were')} refused as too long for the context")
        good = round_.figures.good
        ended = good[good["finish_reason"] == "length"]
        known = ended[ended["completion_tokens"].notna() & ended["max_tokens"].notna()]
        cut = known[known["completion_tokens"] < known["max_tokens"]]
        context = _context(facts, round_)
        if len(cut):
            tokens = cut["completion_tokens"].median()
            per_slot = "" if context is None else f"; each slot has {context:,} tokens of context"
            return failed(
                f"{len(cut)} of {len(good)} answers were cut at about {tokens:,.0f} tokens (finish=length),"
                f" {cut['max_tokens'].median():,.0f} were allowed{per_slot}"
            )
        if len(known) < len(ended):
            return unknown(f"{len(ended) - len(known)} answers ended at a limit, but their tokens are unknown")
        return passed(f"none of {len(good)} answers was cut before its own limit")

    return facts.each(check)


@cell_check("fixed length obeyed")
def fixed_length(facts: CellFacts) -> Finding:
    """With a fixed length, every answer has finish_reason length and max_tokens tokens."""

    def check(round_: RoundFacts) -> Finding:
        if not (facts.section.get("fixed_length") or round_.capture.asked.get("fixed_length")):
            return not_applicable("answers end where the model ends")
        good = round_.figures.good
        if not len(good):
            return unknown("no request was ok")
        short = good[(good["finish_reason"] != "length") | good["completion_tokens"].lt(good["max_tokens"])]
        over = good[good["completion_tokens"].gt(good["max_tokens"])]
        if len(short) or len(over):
            odd = short if len(short) else over
            got = odd["completion_tokens"].median()
            tokens = "an unknown number of" if pd.isna(got) else f"{got:,.0f}"
            wanted = odd["max_tokens"].median()
            return failed(
                f"{len(short) + len(over)} of {len(good)} answers have {tokens} tokens instead of {wanted:,.0f}"
            )
        if good["completion_tokens"].isna().any():
            return unknown("all ended with finish=length, but the engine does not report tokens")
        return passed(f"all {len(good)} answers have {good['max_tokens'].median():,.0f} tokens")

    return facts.each(check)


@cell_check("errors under the limit")
def errors(facts: CellFacts) -> Finding:
    """The share of failed measured requests is at most the profile's error_limit."""
    limit = float(facts.run.profile.get("error_limit") or 0.0)

    def check(round_: RoundFacts) -> Finding:
        measured = round_.figures.measured
        bad = measured[measured["failed"]]
        if not len(measured):
            return failed("nothing was measured")
        if not len(bad):
            return passed(f"0 of {len(measured)} requests failed")
        kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(Counter(bad["error_kind"]).items(), key=str))
        evidence = f"{len(bad)} of {len(measured)} requests failed ({kinds}); the limit is {100 * limit:.3g}%"
        return failed(evidence) if len(bad) / len(measured) > limit else warned(evidence)

    return facts.each(check)


@cell_check("never restarted")
def never_restarted(facts: CellFacts) -> Finding:
    """The engine has one fingerprint from the first to the last request, and no request found it gone."""

    def check(round_: RoundFacts) -> Finding:
        frame = round_.figures.measured
        gone = int((frame["error_kind"] == ErrorKind.ENGINE_GONE.value).sum())
        if gone:
            return failed(f"the engine was gone for {gone} requests")
        fingerprints = set(frame["system_fingerprint"].dropna())
        if len(fingerprints) > 1:
            return failed(
                f"the engine's fingerprint changed within the cell: {', '.join(sorted(map(str, fingerprints)))}"
            )
        return passed("one fingerprint throughout" if fingerprints else "no request found the engine gone")

    return facts.each(check)


@cell_check("usage plausible")
def usage_plausible(facts: CellFacts) -> Finding:
    """The usage fits the stream and the request: not fewer tokens than chunks with text, not more than the text can
    have, and none beyond max_tokens.
    """

    def check(round_: RoundFacts) -> Finding:
        good = round_.figures.good
        known = good[good["completion_tokens"].gt(0)]
        if known.empty:
            return unknown("no usage: the tokens of the answers are unknown")
        over = known[known["completion_tokens"].gt(known["max_tokens"])]
        if len(over):
            return failed(
                f"{len(over)} of {count(len(known), 'answer')} have more tokens than max_tokens allowed, such as"
                f" {over['completion_tokens'].iloc[0]:,.0f} of {over['max_tokens'].iloc[0]:,.0f}"
            )
        silent = len(good) - len(known)
        per_token = known["chunks"] / known["completion_tokens"]
        most = known["completion_tokens"] > MOST_TOKENS_A_CHARACTER * known["chars"] + 8
        evidence = (
            f"{per_token.median():.2f} chunks per token, {(known['chars'] / known['completion_tokens']).median():.1f}"
        )
        evidence += f" characters per token; tokens from {', '.join(sorted(map(str, set(known['token_source']))))}"
        if silent:
            evidence += f"; {silent} of {len(good)} answers came without usage"
        if per_token.median() > CHUNKS_FAIL or most.mean() > 0.05:
            return failed(evidence)
        odd = silent or per_token.median() > CHUNKS_WARN or most.any()
        return warned(evidence) if odd else passed(evidence)

    return facts.each(check)


def _context(facts: CellFacts, round_: RoundFacts) -> int | None:
    for engine_round in facts.run.rounds.get(facts.engine, []):
        if engine_round.number == round_.number:
            context = (engine_round.state.get("readback") or {}).get("context_per_slot")
            return int(context) if context is not None else None
    return None
