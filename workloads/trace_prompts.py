"""Prompts for the requests of a trace: of its lengths, and sharing the prefixes that its requests shared."""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from workloads.prompts import MEASURE, WARMUP, Prompt, read_prompts
from workloads.synthetic import _OPENING_WORDS, _WORDS, Lengths, _generator, _openings, synthetic_prompts
from workloads.traces import Arrival, Trace

BLOCK_TOKENS = 512
"""Tokens of a block of Mooncake's trace."""


def trace_prompts(name: str, trace: Trace, *, seed: int, speed: float, warmup: int, cap: int | None) -> list[Prompt]:
    """A prompt for each request, due at its time, and a warm-up pool; the same for the same arguments.

    A block is the same text wherever its hash id stands. Words are one token each (`workloads.synthetic`).

    Args:
        name: of the workload; ids begin with it.
        trace: the requests.
        seed: what words are drawn from.
        speed: how much faster than recorded requests come; 2 halves all times.
        warmup: prompts of the warm-up pool.
        cap: longer prompts and answers are cut to so many tokens; None: none is.

    Raises:
        ValueError: more prompts than can begin differently.
    """
    order, words = (_generator(name, "trace", seed, use) for use in ("order", "words"))
    unshared = sum(not arrival.hash_ids for arrival in trace.arrivals)
    openings = iter(_openings(order, MEASURE, unshared))
    prompts = []
    for number, arrival in enumerate(trace.arrivals, start=1):
        tokens, answer = (min(n, cap) if cap else n for n in (arrival.input_tokens, arrival.output_tokens))
        if arrival.hash_ids:
            text = _of_blocks(name, seed, arrival, tokens)
        else:
            first, second = next(openings)
            text = [first, second, *words.choices(_WORDS, k=max(tokens - 2, 0))][:tokens]
        message = {"role": "user", "content": " ".join(text)}
        prompts.append(
            Prompt(
                f"{name}-{number:05d}",
                (message,),
                task="synthetic",
                max_tokens=answer,
                input_tokens=tokens,
                at_s=round(arrival.at_s / speed, 6),
            )
        )
    usual = max(int(statistics.median(prompt.input_tokens or 2 for prompt in prompts)), 2)
    pool = synthetic_prompts(name, Lengths(usual), seed=seed, count=0, warmup=warmup)
    return prompts + pool


def _of_blocks(name: str, seed: int, arrival: Arrival, tokens: int) -> list[str]:
    """So many words of the blocks that the ids name; beyond the last of them, words of its own."""
    text: list[str] = []
    for block in arrival.hash_ids:
        if len(text) >= tokens:
            break
        text += _block(name, seed, block)
    missing = tokens - len(text)
    if missing > 0:
        own = _generator(name, seed, "own", arrival.at_s, *arrival.hash_ids)
        text += own.choices(_WORDS, k=missing)
    return text[:tokens]


@lru_cache(maxsize=4096)
def _block(name: str, seed: int, block: int) -> tuple[str, ...]:
    r = _generator(name, seed, "block", block)
    return (r.choice(_OPENING_WORDS), *r.choices(_WORDS, k=BLOCK_TOKENS - 1))


def recorded_prompts(file: Path, trace: Trace, *, speed: float, cap: int | None) -> list[Prompt] | None:
    """The prompts that our own records asked, due at their times, with answers of the same length.

    `file` is the run's workload file; None where it lacks one of them.

    Raises:
        TaskError: the file is damaged.
    """
    if not file.is_file():
        return None
    known = {prompt.prompt_id: prompt for prompt in read_prompts(file)}
    if not all(arrival.prompt_id in known for arrival in trace.arrivals):
        return None
    prompts = []
    for number, arrival in enumerate(trace.arrivals, start=1):
        asked = known[arrival.prompt_id or ""]
        prompts.append(
            replace(
                asked,
                prompt_id=f"{asked.prompt_id}-{number:05d}",
                gold=None,
                grader=None,
                pool=MEASURE,
                max_tokens=min(arrival.output_tokens, cap or arrival.output_tokens),
                at_s=round(arrival.at_s / speed, 6),
            )
        )
    return prompts + [prompt for prompt in known.values() if prompt.pool == WARMUP]
