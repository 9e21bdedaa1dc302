"""Audit checks of the requests: was the same asked of both, in the same mode, and did each answer end as it should?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd

from records import ErrorKind
from scoring.audit import CellFacts, Finding, RoundFacts, cell_check, failed, not_applicable, passed, unknown, warned

SAMPLERS = (
    *("temperature", "top_p", "top_k", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty", "seed"),
)
CHUNKS_WARN, CHUNKS_FAIL = 1.02, 1.5
"""Chunks with text for each token of the usage: more than one can't be."""
MOST_TOKENS_A_CHARACTER = 4
"""A character of four UTF-8 bytes can be four tokens, no more."""


@cell_check("same prompts asked")
def same_prompts(facts: CellFacts) -> Finding:
    """Both engines were asked the same texts, as often; and no text was both warm-up and measured."""
    mine = _asked(facts.rounds)
    if not mine:
        return failed("nothing was measured")
    if facts.is_baseline or not facts.baseline:
        return passed(f"{len(mine)} different prompts, {sum(mine.values())} measured requests")
    theirs = _asked(facts.baseline)
    only_mine, only_theirs = len(mine.keys() - theirs.keys()), len(theirs.keys() - mine.keys())
    by_time = any(r.capture.asked.get("duration_s") for r in facts.rounds)
    if by_time and mine.keys() & theirs.keys():
        return passed(f"by duration: {len(mine.keys() & theirs.keys())} prompts in common, in the same order")
    if only_mine or only_theirs:
        return failed(f"{only_mine} prompts were asked only here, {only_theirs} only of the baseline")
    if mine != theirs and len(facts.rounds) == len(facts.baseline):
        return failed("the same prompts, but not equally often")
    return passed(f"the baseline's {len(mine)} prompts")


@cell_check("warm-up apart")
def warmup_apart(facts: CellFacts) -> Finding:
    """No prompt was sent as warm-up and measured too."""

    def check(round_: RoundFacts) -> Finding:
        frame = round_.figures.requests
        warm = set(frame.loc[frame["phase"] == "warmup", "prompt_sha256"])
        if not warm:
            return not_applicable("no warm-up request")
        both = warm & set(frame.loc[frame["phase"] != "warmup", "prompt_sha256"])
        if both:
            return failed(f"{len(both)} of {len(warm)} warm-up prompts were measured too")
        return passed(f"{len(warm)} warm-up prompts, none of them measured")

    return facts.each(check)


@cell_check("same load asked")
def same_load(facts: CellFacts) -> Finding:
    """Concurrency, number of requests, lengths and samples asked are the baseline's."""
    if facts.is_baseline or not facts.baseline or not facts.rounds:
        return not_applicable("compared with the baseline, for the candidates")
    keys: tuple[str, ...] = ("shape", "users", "rate", "steps", "duration_s", "max_tokens", "fixed_length", "samples")
    if not facts.run.asks_all(facts.cell):
        # A resumed cell asks fewer in its last part.
        keys += ("requests", "warmup")
    base = facts.baseline[0].capture.asked
    for round_ in facts.rounds:
        for key in keys:
            if (mine := round_.capture.asked.get(key)) != base.get(key):
                return failed(f"round {round_.number}: {key} {mine} was asked, {base.get(key)} of the baseline")
    told = ", ".join(f"{key} {base[key]}" for key in keys if base.get(key) not in (None, False))
    return passed(told or "as of the baseline")


NO_SAY = {"top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""The value at which a sampler does nothing, so that an engine without a word for it may leave it out."""


def _has_no_say(key: str, other: Mapping[str, Any]) -> bool:
    greedy = other.get("temperature") == 0 and key in {"top_k", "top_p", "min_p"}
    return greedy or other.get(key) == NO_SAY.get(key, object())


@cell_check("same sampling")
def same_sampling(facts: CellFacts) -> Finding:
    """The samplers that were sent with the requests are the profile's and the baseline's."""
    profile = facts.run.profile.get("sampling") or {}
    base = _samplers(facts.baseline[0]) if facts.baseline else None

    def check(round_: RoundFacts) -> Finding:
        mine = _samplers(round_)
        if mine is None:
            return unknown("the load process does not say what it sent")
        for other, who in ((profile, "the profile"), (base, "the baseline")):
            for key in SAMPLERS:
                if other and other.get(key) is not None and mine.get(key) != other.get(key):
                    if mine.get(key) is None and _has_no_say(key, other):
                        continue
                    return failed(f"{key} {mine.get(key)} was sent, {other.get(key)} in {who}")
        told = ", ".join(f"{key} {value}" for key, value in mine.items())
        return passed(told) if told else unknown("no sampler was sent: the engine's own defaults hold")

    return facts.each(check)


@cell_check("same prompt tokens")
def same_prompt_tokens(facts: CellFacts) -> Finding:
    """The same prompt has as many tokens in both engines: their chat templates match."""
    if facts.is_baseline or not facts.baseline:
        return not_applicable("compared with the baseline, for the candidates")
    mine, theirs = _prompt_tokens(facts.rounds), _prompt_tokens(facts.baseline)
    common = sorted(mine.keys() & theirs.keys())
    if not common:
        return unknown("prompt tokens are not told by both engines for the same prompts")
    differing = [key for key in common if mine[key] != theirs[key]]
    if differing:
        first = differing[0]
        return failed(
            f"{len(differing)} of {len(common)} prompts differ, such as {_some(mine[first])} tokens here and"
            f" {_some(theirs[first])} in the baseline"
        )
    return passed(f"equal for all {len(common)} prompts")


@cell_check("thinking off")
def thinking_off(facts: CellFacts) -> Finding:
    """No answer holds think text where thinking is off."""
    if facts.run.profile.get("thinking"):
        return not_applicable("the profile asks for thinking")

    def check(round_: RoundFacts) -> Finding:
        good = _good(round_)
        count = int(good["thought"].sum())
        if not len(good):
            return unknown("no request was ok")
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
            return failed(f"{len(refused)} prompts were refused as too long for the context")
        good = _good(round_)
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
            return unknown(f"{len(ended) - len(known)} answers ended at a limit and do not tell their tokens")
        return passed(f"none of {len(good)} answers was cut before its own limit")

    return facts.each(check)


@cell_check("cache cold")
def cache_cold(facts: CellFacts) -> Finding:
    """No prompt token came from a cache, where cold prompts are asked for."""
    if facts.run.profile.get("cache"):
        return not_applicable("the profile asks for the cache")

    def check(round_: RoundFacts) -> Finding:
        good = _good(round_)
        told = good[["cached_tokens", "server_cache_n"]].max(axis=1)
        if told.notna().sum() == 0:
            return unknown("the engine does not tell cached tokens")
        hits = good[told.gt(0)]
        if len(hits):
            return failed(f"{len(hits)} of {len(good)} requests hit the cache, {told.max():,.0f} tokens at most")
        return passed(f"0 cached tokens in {int(told.notna().sum())} requests")

    return facts.each(check)


@cell_check("fixed length obeyed")
def fixed_length(facts: CellFacts) -> Finding:
    """Where a fixed length is asked, every answer has it: finish_reason length and max_tokens tokens."""

    def check(round_: RoundFacts) -> Finding:
        if not (facts.section.get("fixed_length") or round_.capture.asked.get("fixed_length")):
            return not_applicable("answers end where the model ends")
        good = _good(round_)
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
            return unknown("all ended with finish=length, but the engine does not tell tokens")
        return passed(f"all {len(good)} answers have {good['max_tokens'].median():,.0f} tokens")

    return facts.each(check)


@cell_check("errors under the limit")
def errors(facts: CellFacts) -> Finding:
    """The share of failed measured requests is at most the profile's error_limit."""
    limit = float(facts.run.profile.get("error_limit") or 0.0)

    def check(round_: RoundFacts) -> Finding:
        measured = round_.figures.measured
        bad = measured[~measured["ok"]]
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
    """The engine answered as the same build from the first to the last request, and did not go away in between."""

    def check(round_: RoundFacts) -> Finding:
        frame = round_.figures.measured
        gone = int((frame["error_kind"] == ErrorKind.ENGINE_GONE.value).sum())
        if gone:
            return failed(f"the engine was gone for {gone} requests")
        told = set(frame["system_fingerprint"].dropna())
        if len(told) > 1:
            return failed(f"the engine's fingerprint changed within the cell: {', '.join(sorted(map(str, told)))}")
        return passed("one fingerprint throughout" if told else "no request found the engine gone")

    return facts.each(check)


@cell_check("usage plausible")
def usage_plausible(facts: CellFacts) -> Finding:
    """Usage against the stream: no more chunks with text than tokens, no more tokens than the text can hold."""

    def check(round_: RoundFacts) -> Finding:
        good = _good(round_)
        told = good[good["completion_tokens"].gt(0)]
        if told.empty:
            return unknown("no usage: the tokens of the answers are not known")
        if len(told) < len(good):
            return warned(f"{len(good) - len(told)} of {len(good)} answers came without usage")
        per_token = told["chunks"] / told["completion_tokens"]
        most = told["completion_tokens"] > MOST_TOKENS_A_CHARACTER * told["chars"] + 8
        evidence = (
            f"{per_token.median():.2f} chunks a token, {(told['chars'] / told['completion_tokens']).median():.1f}"
        )
        evidence += f" characters a token; tokens from {', '.join(sorted(map(str, set(told['token_source']))))}"
        if per_token.median() > CHUNKS_FAIL or most.mean() > 0.05:
            return failed(evidence)
        return warned(evidence) if per_token.median() > CHUNKS_WARN or most.any() else passed(evidence)

    return facts.each(check)


def _good(round_: RoundFacts) -> pd.DataFrame:
    return round_.figures.good


def _asked(rounds: list[RoundFacts]) -> Counter[str]:
    return Counter(
        sha for r in rounds for sha in r.figures.requests.loc[r.figures.requests["measured"], "prompt_sha256"]
    )


def _samplers(round_: RoundFacts) -> dict[str, Any] | None:
    extras = round_.capture.asked.get("request_extras")
    if isinstance(extras, dict):
        return {key: extras[key] for key in SAMPLERS if extras.get(key) is not None}
    return None


def _prompt_tokens(rounds: list[RoundFacts]) -> dict[str, frozenset[int]]:
    """All token counts that an engine told for each prompt: one, unless something is wrong."""
    found: dict[str, set[int]] = {}
    for round_ in rounds:
        told = _good(round_)[["prompt_sha256", "prompt_tokens"]].dropna()
        for sha, tokens in zip(told["prompt_sha256"], told["prompt_tokens"], strict=True):
            found.setdefault(sha, set()).add(int(tokens))
    return {sha: frozenset(tokens) for sha, tokens in found.items()}


def _some(counts: frozenset[int]) -> str:
    return " or ".join(map(str, sorted(counts)))


def _context(facts: CellFacts, round_: RoundFacts) -> int | None:
    for life in facts.run.rounds.get(facts.engine, []):
        if life.number == round_.number:
            told = (life.state.get("readback") or {}).get("context_per_slot")
            return int(told) if told is not None else None
    return None
