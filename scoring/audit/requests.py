"""Audit checks of the requests: both engines got the same prompts, load, sampling and chat template."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from records.wording import count
from scoring.audit.model import (
    CellFacts,
    Finding,
    RoundFacts,
    cell_check,
    failed,
    is_greedy,
    not_applicable,
    passed,
    unknown,
    warned,
)

SAMPLERS = (
    *("temperature", "top_p", "top_k", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty", "seed"),
)

NEAR_ENOUGH = 0.02
"""Spread of the prompts' real lengths around the plan, as a share of their mean, above which the audit warns."""


@cell_check("same prompts asked")
def same_prompts(facts: CellFacts) -> Finding:
    """Both engines were asked the same texts, equally often."""
    mine = _asked(facts.rounds)
    if not mine:
        return failed("nothing was measured")
    if facts.is_baseline or not facts.baseline:
        return passed(f"{count(len(mine), 'different prompt')}, {count(sum(mine.values()), 'measured request')}")
    theirs = _asked(facts.baseline)
    only_mine, only_theirs = len(mine.keys() - theirs.keys()), len(theirs.keys() - mine.keys())
    common = len(mine.keys() & theirs.keys())
    by_time = any(r.capture.ends_by_time for r in facts.rounds)
    # The faster engine gets further in the same list; the workers of one load advance at different speeds.
    workers = any(r.capture.scenario.get("workers") for r in facts.rounds)
    if by_time and common and (workers or not (only_mine and only_theirs)):
        return passed(
            f"by duration: {count(common, 'prompt')} in common, {only_mine + only_theirs} only for the faster engine"
        )
    if only_mine or only_theirs:
        return failed(
            f"{count(only_mine, 'prompt was', 'prompts were')} asked only here, {only_theirs} only in the baseline"
        )
    if mine != theirs and len(facts.rounds) == len(facts.baseline):
        return failed("the same prompts, but not equally often")
    return passed(f"the baseline's {count(len(mine), 'prompt')}")


@cell_check("warm-up apart")
def warmup_apart(facts: CellFacts) -> Finding:
    """No prompt was both a warm-up prompt and measured."""

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


@cell_check("warm-up answered")
def warmup_answered(facts: CellFacts) -> Finding:
    """The warm-up requests were answered: an engine that refused them is measured cold."""

    def check(round_: RoundFacts) -> Finding:
        frame = round_.figures.requests
        warm = frame[frame["phase"] == "warmup"]
        if warm.empty:
            return not_applicable("no warm-up request")
        bad = warm[~warm["ok"]]
        if len(bad):
            kinds = ", ".join(sorted(set(bad["error_kind"].astype(str))))
            return warned(
                f"{len(bad)} of {count(len(warm), 'warm-up request')} failed ({kinds}): the engine was measured cold"
            )
        return passed(f"all {count(len(warm), 'warm-up request')}")

    return facts.each(check)


@cell_check("same load asked")
def same_load(facts: CellFacts) -> Finding:
    """Concurrency, number of requests, lengths and samples are the same as for the baseline."""
    if facts.is_baseline or not facts.baseline or not facts.rounds:
        return not_applicable("compared with the baseline, for the candidates")
    keys: tuple[str, ...] = ("shape", "users", "rate", "arrivals", "burstiness", "steps", "duration_s")
    keys += ("max_tokens", "fixed_length", "samples", "carry")
    if not facts.run.asks_all(facts.cell):
        # A resumed cell asks fewer requests in its last part.
        keys += ("requests", "conversations", "warmup")
    # Rounds may differ where the time that was asked for ran short: their cells are shortened for all engines alike.
    of_round = {round_.number: round_.capture.asked for round_ in facts.baseline}
    for round_ in facts.rounds:
        base = of_round.get(round_.number, facts.baseline[0].capture.asked)
        for key in keys:
            if (mine := round_.capture.asked.get(key)) != base.get(key):
                return failed(f"round {round_.number}: {key} was {mine}, in the baseline {base.get(key)}")
    load = ", ".join(f"{key} {base[key]}" for key in keys if base.get(key) not in (None, False))
    return passed(load or "as in the baseline")


NEUTRAL = {"top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""The value at which a sampler has no effect, so an engine that does not know the field may leave it out."""


def _has_no_effect(key: str, other: Mapping[str, Any]) -> bool:
    greedy = is_greedy(other.get("temperature")) and key in {"top_k", "top_p", "min_p"}
    return greedy or other.get(key) == NEUTRAL.get(key, object())


@cell_check("same sampling")
def same_sampling(facts: CellFacts) -> Finding:
    """The samplers sent with the requests are those of the profile and of the baseline."""
    profile = facts.run.profile.get("sampling") or {}
    base = _samplers(facts.baseline[0]) if facts.baseline else None

    def check(round_: RoundFacts) -> Finding:
        mine = _samplers(round_)
        if mine is None:
            return unknown("the load process did not record the samplers that it sent")
        for other, who in ((profile, "the profile"), (base, "the baseline")):
            for key in SAMPLERS:
                if other and other.get(key) is not None and mine.get(key) != other.get(key):
                    if mine.get(key) is None and _has_no_effect(key, other):
                        continue
                    if key == "temperature" and is_greedy(mine.get(key)) and is_greedy(other.get(key)):
                        continue
                    return failed(f"{key} {mine.get(key)} was sent, {other.get(key)} in {who}")
        samplers = ", ".join(f"{key} {value}" for key, value in mine.items())
        return passed(samplers) if samplers else unknown("no sampler was sent: the engine's own defaults apply")

    return facts.each(check)


@cell_check("same prompt tokens")
def same_prompt_tokens(facts: CellFacts) -> Finding:
    """The same prompt has as many tokens in both engines: their chat templates match."""
    if facts.is_baseline or not facts.baseline:
        return not_applicable("compared with the baseline, for the candidates")
    mine, theirs = _prompt_tokens(facts.rounds), _prompt_tokens(facts.baseline)
    common = sorted(mine.keys() & theirs.keys())
    if not common:
        return unknown("one of the engines does not report prompt tokens for the same prompts")
    differing = [key for key in common if mine[key] != theirs[key]]
    if differing:
        first = differing[0]
        return failed(
            f"{len(differing)} of {len(common)} prompts differ, such as {_some(mine[first])} tokens here and"
            f" {_some(theirs[first])} in the baseline"
        )
    return passed(f"equal for all {len(common)} prompts" if len(common) > 1 else "equal for 1 prompt")


@cell_check("prompts as long as planned")
def prompts_as_planned(facts: CellFacts) -> Finding:
    """Synthetic prompts have their planned length: the engine counts the planned tokens plus its chat template's.

    The template adds the same number to every prompt, so a constant difference proves that the lengths are exact.
    """
    if not facts.planned:
        return not_applicable("no length was planned")
    added: Counter[int] = Counter()
    by_turn: dict[float, Counter[int]] = {}
    for round_ in facts.rounds:
        if round_.capture.asked.get("carry") == "real":
            return not_applicable("the model's own answers are carried on, of which no length was planned")
        good = round_.figures.good
        turns = good["turn"].fillna(1)
        for prompt_id, turn, tokens in zip(good["prompt_id"], turns, good["prompt_tokens"], strict=True):
            if prompt_id in facts.planned and not math.isnan(tokens):
                added[int(tokens) - facts.planned[prompt_id]] += 1
                by_turn.setdefault(turn, Counter())[int(tokens) - facts.planned[prompt_id]] += 1
    if not added:
        return unknown("the engine does not report prompt tokens")
    # A template adds its own to each message, so that all first turns have one difference, all second turns another.
    if all(len(differences) == 1 for differences in by_turn.values()):
        usual = " to ".join(map(str, sorted({min(added), max(added)})))
        return passed(f"exact for {count(added.total(), 'request')}, with {usual} tokens of the chat template")
    mean = sum(facts.planned.values()) / len(facts.planned)
    spread = (max(added) - min(added)) / mean
    evidence = f"{min(added):+d} to {max(added):+d} tokens against the planned {mean:,.0f}"
    return warned(f"{evidence}: lengths are near, not exact") if spread > NEAR_ENOUGH else passed(f"near: {evidence}")


def _asked(rounds: list[RoundFacts]) -> Counter[str]:
    """How often each text was asked. Retries and repetitions of a resumed cell count as one sample."""
    counts: Counter[str] = Counter()
    for round_ in rounds:
        # With the model's own answers carried on, two engines get the same later questions, but not the same texts.
        name = "prompt_id" if round_.capture.asked.get("carry") == "real" else "prompt_sha256"
        counts.update(round_.figures.measured.drop_duplicates([name, "sample"])[name])
    return counts


def _samplers(round_: RoundFacts) -> dict[str, Any] | None:
    extras = round_.capture.asked.get("request_extras")
    if isinstance(extras, dict):
        # What the load process sends unless the extras say otherwise.
        sent = {"temperature": 0, **extras}
        return {key: sent[key] for key in SAMPLERS if sent.get(key) is not None}
    return None


def _prompt_tokens(rounds: list[RoundFacts]) -> dict[str, frozenset[int]]:
    """All token counts that an engine reports for each prompt: one, unless something is wrong."""
    counts: dict[str, set[int]] = {}
    for round_ in rounds:
        reported = round_.figures.good[["prompt_sha256", "prompt_tokens"]].dropna()
        for sha, tokens in zip(reported["prompt_sha256"], reported["prompt_tokens"], strict=True):
            counts.setdefault(sha, set()).add(int(tokens))
    return {sha: frozenset(tokens) for sha, tokens in counts.items()}


def _some(counts: frozenset[int]) -> str:
    return " or ".join(map(str, sorted(counts)))
