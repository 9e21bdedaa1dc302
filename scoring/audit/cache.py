"""Audit checks of the prompt cache: cold where it must be, and as full as the workload plans where it may be used."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

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
from scoring.speed.reuse import ttft_follows

HEAD_SHARE, HEAD_TOKENS = 0.5, (32, 128)
"""Most of a prompt that a chat template's head makes, as a share, and the limits of that in tokens.

All prompts share it, so that it is cached from the first request on.
"""
BLOCK_TOKENS = 64
"""Engines keep whole blocks of tokens: so many at the end of a prefix may be computed again."""
HIT_TOLERANCE = 0.05
"""Share of reusable tokens by which an engine may miss the plan, or another engine, without a word."""


@cell_check("cache cold")
def cache_cold(facts: CellFacts) -> Finding:
    """No prompt token came from a cache, where cold prompts are asked for.

    With `cache = true` those are prompts that begin like none before: of them no more than a chat template's head may
    be there already, else the cache was left over from another cell or run.
    """
    may_cache = bool(facts.run.profile.get("cache"))

    def check(round_: RoundFacts) -> Finding:
        good = round_.figures.good
        told = good["found_tokens"]
        if told.notna().sum() == 0:
            return unknown("the engine does not report cached tokens")
        if may_cache:
            first = good[good["reusable_tokens"].eq(0)]
            left_over = first[first["found_tokens"] > _head_tokens(first)]
            if len(left_over):
                return failed(
                    f"{len(left_over)} of {count(len(first), 'prompt')} that nobody had sent before were in the cache,"
                    f" {left_over['found_tokens'].max():,.0f} tokens at most: left over from another cell or run"
                )
            return passed(f"none of {count(len(first), 'prompt')} that nobody had sent before was in the cache")
        hits = good[told.gt(0)]
        if len(hits):
            return failed(f"{len(hits)} of {len(good)} requests hit the cache, {told.max():,.0f} tokens at most")
        if told.isna().any():
            return unknown(
                f"0 cached tokens in {told.notna().sum()} requests, but {told.isna().sum()} do not report them"
            )
        return passed(f"0 cached tokens in {count(len(told), 'request')}")

    return facts.each(check)


@cell_check("cache hits as planned")
def hits_as_planned(facts: CellFacts) -> Finding:
    """Where prefixes may be cached: the engine found what it could reuse, no more, and as much of it as the baseline.

    Never void: how well an engine reuses prefixes is what such a comparison shows.
    """
    if not facts.run.profile.get("cache"):
        return not_applicable("the profile asks for cold prompts")
    good = _good(facts.rounds)
    if good["reusable_tokens"].isna().any():
        return unknown("the engine does not report prompt tokens, so nobody knows what it could reuse")
    if not good["reusable_tokens"].sum():
        return not_applicable("no prompt has a prefix that was sent before")
    if good["found_tokens"].isna().any():
        follows = ttft_follows(good)
        return unknown(f"the engine does not report cached tokens{f'; {follows}' if follows else ''}")
    mine = _hits(good)
    told = f"{mine.cached:.1%} of prompt tokens came from the cache, {mine.planned:.1%} could have"
    base = _good(facts.baseline) if facts.baseline else good[:0]
    if len(base) and base[["reusable_tokens", "found_tokens"]].notna().all(axis=None):
        theirs = _hits(base)
        if abs(mine.reused - theirs.reused) > HIT_TOLERANCE:
            return warned(f"{told}; of the reusable ones {mine.reused:.1%} here, {theirs.reused:.1%} in the baseline")
    if mine.missed > HIT_TOLERANCE:
        return warned(f"{told}: {mine.missed:.1%} of the reusable ones were computed again")
    if mine.unplanned > HIT_TOLERANCE:
        return warned(f"{told}: {mine.unplanned:.1%} are hits that nobody planned")
    return passed(told)


@dataclass(frozen=True, slots=True)
class _Hits:
    """Shares: cached and planned of all prompt tokens; reused and missed of the reusable; unplanned of all."""

    cached: float
    planned: float
    reused: float
    missed: float
    unplanned: float


def _hits(good: pd.DataFrame) -> _Hits:
    prompt, reusable, found = (good[name] for name in ("prompt_tokens", "reusable_tokens", "found_tokens"))
    again, more = reusable - found, found - reusable
    return _Hits(
        cached=found.sum() / prompt.sum(),
        planned=reusable.sum() / prompt.sum(),
        reused=found.clip(upper=reusable).sum() / reusable.sum(),
        missed=again[again > BLOCK_TOKENS].sum() / reusable.sum(),
        # A template's head is part of any prefix that can be reused.
        unplanned=more[more > _head_tokens(good).where(reusable.eq(0), BLOCK_TOKENS)].sum() / prompt.sum(),
    )


def _head_tokens(requests: pd.DataFrame) -> pd.Series[float]:
    """The most tokens of each request that a chat template's head may be."""
    return (HEAD_SHARE * requests["prompt_tokens"]).clip(*HEAD_TOKENS)


def _good(rounds: list[RoundFacts]) -> pd.DataFrame:
    return pd.concat([round_.figures.good for round_ in rounds]) if rounds else pd.DataFrame({"reusable_tokens": []})
