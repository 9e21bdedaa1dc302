"""Prefixes that an engine could have had in its cache, and those that it had.

The reusable tokens of a request are those of the longest prefix that this load had sent, and seen answered, before:

- of a turn after the first: the prompt of the turn before; where the model's own answers are carried on, with its
  answer;
- of a prompt with a planned prefix: that prefix, once a request with it has brought its first token;
- of a prompt that was asked before: all of it.

They are counted in the engine's own tokens, as its usage has them, and are no more than the engine could have reused: a
chat template's head, which all prompts share, is not among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from records import JsonObject
from scoring.captures import Capture
from scoring.speed.latency import MeasuredRound
from workloads import Prompt, turn_id

Floats = NDArray[np.float64]

COLUMNS = ("reusable_tokens", "found_tokens")
"""What `add_reuse` adds to each request: tokens that could have come from a cache, and that did (NaN: not known)."""

FEWEST_FOR_A_LINE = 12
"""Requests that a line through TTFT over tokens needs."""


def add_reuse(capture: Capture, prompts: Sequence[Prompt]) -> None:
    """Add `COLUMNS` to the requests of a capture; `prompts` are those of its workload."""
    frame = capture.requests
    # Not by fmax: where usage is missing, what could be reused is not known.
    reusable = np.maximum(_of_conversations(frame, real=capture.asked.get("carry") == "real"), _asked_before(frame))
    prefixes = {p.prompt_id: (p.prefix_group, p.prefix_tokens) for p in prompts if p.prefix_tokens}
    if prefixes:
        reusable = np.maximum(reusable, _of_prefixes(frame, prefixes))
    frame["reusable_tokens"] = reusable
    frame["found_tokens"] = frame[["cached_tokens", "server_cache_n"]].max(axis=1)


def _of_conversations(frame: pd.DataFrame, *, real: bool) -> Floats:
    """Per request the tokens of the turn before; 0 for first turns and single questions, NaN where usage is missing."""
    found = np.zeros(len(frame))
    held = frame[frame["conversation"].notna()].sort_values(["conversation", "turn", "attempt"])
    held = held.drop_duplicates(["conversation", "turn"], keep="last")
    before = held.groupby("conversation")[["prompt_tokens", "completion_tokens"]].shift()
    tokens = before["prompt_tokens"] + (before["completion_tokens"] if real else 0.0)
    found[held.index.to_numpy()] = tokens.where(held["turn"].gt(1), 0.0).to_numpy(float)
    return found


def _asked_before(frame: pd.DataFrame) -> Floats:
    """Per request all of its prompt but one token (an engine has to compute something), where it was asked before."""
    again = _answered_before(frame, frame["prompt_sha256"])
    return np.where(again, frame["prompt_tokens"].to_numpy(float) - 1, 0.0)


def _of_prefixes(frame: pd.DataFrame, prefixes: Mapping[str, tuple[int | None, int | None]]) -> Floats:
    own = frame["asked_id"].map(lambda prompt_id: prefixes.get(prompt_id, (None, None)))
    again = _answered_before(frame, own.map(lambda prefix: prefix[0]))
    return np.where(again, own.map(lambda prefix: prefix[1] or 0).to_numpy(float), 0.0)


def _answered_before(frame: pd.DataFrame, keys: pd.Series[str]) -> NDArray[np.bool_]:
    """Whether a request with the same key had brought its first token when this one was sent, by the same worker."""
    first = frame.groupby([frame["worker"], keys])["first_token_ms"].transform("min")
    return (keys.notna() & frame["sent_ms"].gt(first)).to_numpy(bool)


def planned_tokens(prompts: Sequence[Prompt]) -> dict[str, int]:
    """Planned tokens by prompt_id, of prompts and turns that were made to a length."""
    asked = [(p.prompt_id, p.input_tokens) for p in prompts if not p.turns]
    asked += [(turn_id(p.prompt_id, n), turn.input_tokens) for p in prompts for n, turn in enumerate(p.turns, 1)]
    return {prompt_id: tokens for prompt_id, tokens in asked if tokens is not None}


def reuse_rows(cell: str, workload: str, engine: str, rounds: Sequence[MeasuredRound]) -> list[JsonObject]:
    """Rows of one engine in one cell, of all rounds together; none where nothing could be reused and nothing was.

    A row is {cell, workload, engine, turn, requests, prompt_tokens, reusable_tokens, cached_tokens, planned, achieved}:
    sums over the ok measured requests, and reusable and cached tokens as shares of the prompts'. The first row (`turn`
    null) has all requests, the others one turn each. What is not known is null.
    """
    good = pd.concat([figures.good for *_, figures in rounds]) if rounds else None
    if good is None or not len(good) or not good[list(COLUMNS)].gt(0).any(axis=None):
        return []
    parts: list[tuple[int | None, pd.DataFrame]] = [(None, good)]
    parts += [(turn, good[good["turn"].eq(turn)]) for turn in sorted(map(int, good["turn"].dropna().unique()))]
    head = {"cell": cell, "workload": workload, "engine": engine}
    return [head | {"turn": turn, "requests": len(part)} | _sums(part) for turn, part in parts]


def ttft_follows(good: pd.DataFrame) -> str | None:
    """What TTFT grows with, in words: the new tokens of each prompt (its prefix was reused) or all of them.

    From the share of its variance that a straight line explains; None where neither explains half of it.
    """
    known = good[["ttft_ms", "prompt_tokens", "reusable_tokens"]].dropna()
    ttft, prompt = known["ttft_ms"], known["prompt_tokens"]
    new = prompt - known["reusable_tokens"]
    if len(known) < FEWEST_FOR_A_LINE or not (ttft.std() and prompt.std() and new.std()):
        return None
    whole, fresh = (float(np.corrcoef(ttft, tokens)[0, 1]) ** 2 for tokens in (prompt, new))
    if max(whole, fresh) < 0.5:
        return None
    told = "the whole prompt, as if nothing" if whole > fresh else "its new tokens only, as if its prefix"
    return f"its TTFT follows {told} were reused (R² {max(whole, fresh):.2f} against {min(whole, fresh):.2f})"


def _sums(part: pd.DataFrame) -> JsonObject:
    prompt, reusable, cached = (_sum(part[name]) for name in ("prompt_tokens", *COLUMNS))
    return {
        "prompt_tokens": prompt,
        "reusable_tokens": reusable,
        "cached_tokens": cached,
        "planned": reusable / prompt if prompt and reusable is not None else None,
        "achieved": cached / prompt if prompt and cached is not None else None,
    }


def _sum(values: pd.Series[float]) -> float | None:
    return None if values.isna().any() else float(values.sum())
