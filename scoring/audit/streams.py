"""Audit checks of the streams: time stamps are in order, answers are streamed, and events hold equally many tokens."""

from __future__ import annotations

import numpy as np
import pandas as pd

from records.latency_definitions import HELD_BACK_NS_PER_TOKEN, HELD_BACK_TOKENS, NO_STREAM_NS, Withheld
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

BURST_SHARE = 0.05
"""Above this share of answers that arrive at once, the audit warns; the network can cause a few."""
GROUPING_WARN = 1.2
"""Ratio of two engines' tokens per event from which the audit warns that latencies show the grouping."""


@cell_check("stamps in order")
def stamps_in_order(facts: CellFacts) -> Finding:
    """Every request was sent before its first token arrived, and no stamp lies before an earlier one."""

    def check(round_: RoundFacts) -> Finding:
        measured = round_.figures.measured
        wrong = measured[~measured["in_order"]]
        if measured.empty:
            return unknown("nothing was measured")
        if len(wrong):
            example = f"such as {wrong['id'].iloc[0]}"
            negative = int(wrong["first_token_ms"].lt(wrong["sent_ms"]).sum())
            return failed(
                f"{len(wrong)} of {count(len(measured), 'request')} have stamps out of order ({example});"
                f" TTFT is negative in {negative}"
            )
        return passed(f"in all {count(len(measured), 'request')}")

    return facts.each(check)


@cell_check("answers are streamed")
def streamed(facts: CellFacts) -> Finding:
    """The text of an answer arrives over time. One that arrives at once has no TPOT or ITL, and its TTFT is its E2E."""

    def check(round_: RoundFacts) -> Finding:
        good = round_.figures.good
        long = good[good["completion_tokens"].fillna(good["chunks"]).ge(HELD_BACK_TOKENS)]
        if long.empty:
            return not_applicable(f"no answer of {HELD_BACK_TOKENS} tokens or more")
        at_once = long[long["tpot_withheld"] == Withheld.NO_STREAM]
        if len(at_once) > BURST_SHARE * len(long):
            tokens = at_once["completion_tokens"].median()
            size = "" if np.isnan(tokens) else f" of {tokens:,.0f} tokens"
            return warned(
                f"{len(at_once)} of {count(len(long), 'answer')}{size} arrived at once (within"
                f" {NO_STREAM_NS / 1e6:g} ms, or {HELD_BACK_NS_PER_TOKEN / 1e6:g} ms per token): no stream,"
                " so TTFT is the time of the whole answer, and TPOT is not given"
            )
        return passed(f"{count(len(long), 'answer')} arrived over time")

    return facts.each(check)


@cell_check("tokens per event")
def tokens_per_event(facts: CellFacts) -> Finding:
    """Both engines send about equally many tokens per event; else latencies show the grouping, not the speed."""
    mine = _tokens_per_event(facts.rounds)
    if mine is None:
        return unknown("the tokens of the answers are unknown")
    if facts.is_baseline or not facts.baseline:
        return passed(f"{mine:.2f} tokens per event")
    theirs = _tokens_per_event(facts.baseline)
    if theirs is None:
        return unknown(f"{mine:.2f} tokens per event; those of the baseline are unknown")
    evidence = f"{mine:.2f} tokens per event, {theirs:.2f} in the baseline"
    if max(mine / theirs, theirs / mine) >= GROUPING_WARN:
        return warned(f"{evidence}: TTFT, ITL and ICL show how tokens are grouped; compare E2E and throughput")
    return passed(evidence)


def _tokens_per_event(rounds: list[RoundFacts]) -> float | None:
    answers = [round_.figures.good[["completion_tokens", "chunks"]].dropna() for round_ in rounds]
    good = pd.concat(answers) if answers else pd.DataFrame()
    if good.empty or not good["chunks"].sum() or not good["completion_tokens"].sum():
        return None
    return float(good["completion_tokens"].sum() / good["chunks"].sum())
