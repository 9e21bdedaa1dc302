"""Prompts of a planned number of tokens, made of words that are one token each in every usual vocabulary.

Fifteen vocabularies were looked at (GPT-2, GPT-NeoX, Llama 2 and 3, Qwen 2 and 3.5, SmolLM2, Gemma 4, Phi-3, Falcon,
MPT, Command-R, DeepSeek, StarCoder, Baichuan): in each, every word here is one token with a blank before it, and each
opening word is one token without a blank, too. So a text of n words has n tokens, whatever tokenizer is asked. What the
engine's chat template adds comes on top. The audit holds the prompt tokens that each engine counts against the plan.

No two prompts begin with the same two words, so that an engine's prefix cache finds nothing but the prefix that was
planned.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Literal

from workloads.conversations import Turn, drawn_seconds
from workloads.prompts import MEASURE, WARMUP, Prompt

Distribution = Literal["normal", "uniform", "lognormal"]

MOST_TOKENS = 2_000_000
"""More than any model's context: a larger number is a mistake in typing."""
OPENINGS_OF_WARMUP = 40
"""Opening words that only the warm-up pool uses."""

_OPENING = """
time year people way day man thing life child world school state family group country hand part place case week
system program work number night point home water room area story fact month lot right book job word issue side kind
head house service friend father power hour game line end member law car city name team body back parent face level
office door person art war history party result change air force foot boy age process music market plan effect use
class control field role rate heart show light mind price report son view town road arm value building action season
tax position player record paper space ground form event center site project activity star table cost street image
phone data land product wall news test support step type film tree source look window river bridge bird dog fish
stone apple color green blue black white spring late strong old small large long short high low deep wide open close
clear hard soft empty full common special public private local natural human social legal final total double main
every each other such likely free ready able true false real good best bad new present next last first second third
walk run move stop start begin make take send hold keep find watch call ask write read know join drive fly fall
stand cook clean build break cut draw play win pay save live die wait like help cover cross pass press push drop
create accept allow
"""
_OTHER = """
woman student problem company question mother money study eye business community minute idea others health morning
reason research moment teacher education policy sense interest death effort drug leader voice decision director
official matter couple need court oil situation industry figure picture practice piece doctor patient worker movie
north love computer attention hair radio forest animal gold silver coffee salt fruit orange brown yellow summer
today yesterday early quick slow weak young great little warm cold dark simple easy heavy quiet happy strange
foreign modern medical single major minor several many few another same different similar certain possible sure
important necessary useful nice better worse worst recent past future turn give bring carry leave lose listen hear
speak talk tell say answer learn think believe remember forget explain describe follow lead meet visit travel sit
sleep eat drink paint sing fight buy sell spend grow become remain stay hope wish want enjoy serve protect attack
reach pull throw catch pick choose produce provide offer
"""
_OPENING_WORDS = _OPENING.split()
_WORDS = _OPENING_WORDS + _OTHER.split()


@dataclass(frozen=True, slots=True)
class Lengths:
    """How long prompts and answers are, in tokens; with more than one turn they are conversations.

    A standard deviation of 0 makes all the same; else lengths are drawn: `normal`, `uniform` (over mean +- sqrt(3) sd)
    or `lognormal`, all with that mean and deviation, and at least 1. A share `prefix_share` of the prompts begins with
    one of `prefix_groups` prefixes of `prefix_tokens`, which count as part of its length; each has at least two further
    tokens.

    Of a conversation, `input_tokens` are those of each question (of the first with its prefix), and `output_tokens`
    those of each answer, also of the fixed ones that it goes on with. Numbers of turns and think times are drawn too.
    """

    input_tokens: int
    output_tokens: int | None = None
    input_sd: float = 0.0
    output_sd: float = 0.0
    distribution: Distribution = "normal"
    prefix_tokens: int = 0
    prefix_groups: int = 1
    prefix_share: float = 1.0
    turns: int = 1
    turns_sd: float = 0.0
    think_s: float = 0.0
    think_sd: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers against each other.

        Raises:
            ValueError: a prefix that leaves a prompt fewer than two tokens, or a key without the one that it needs.
        """
        if self.prefix_tokens + 2 > self.input_tokens:
            room = f"a prompt of {self.input_tokens} tokens"
            raise ValueError(f"prefix_tokens {self.prefix_tokens} leaves {room} fewer than two of its own")
        if self.output_sd and self.output_tokens is None:
            raise ValueError("output_sd needs output_tokens")
        if self.turns > 1 and self.output_tokens is None:
            raise ValueError("turns needs output_tokens, the length of the answers that a conversation goes on with")
        for name in ("turns_sd", "think_s", "think_sd"):
            if getattr(self, name) and self.turns == 1:
                raise ValueError(f"{name} needs turns, at least 2")
        if self.think_sd and not self.think_s:
            raise ValueError("think_sd needs think_s")
        if self.prefix_share < 1 and not self.prefix_tokens:
            raise ValueError("prefix_share needs prefix_tokens")

    @property
    def tokens(self) -> int:
        """Planned tokens of a prompt, or of all that is said in a conversation, on average."""
        answers = self.output_tokens or 0
        return self.input_tokens if self.turns == 1 else self.turns * (self.input_tokens + answers)


def synthetic_prompts(name: str, lengths: Lengths, *, seed: int, count: int, warmup: int) -> list[Prompt]:
    """`count` prompts to measure and `warmup` that are never measured; the same for the same arguments.

    Args:
        name: of the workload; ids begin with it.
        lengths: in tokens.
        seed: what words and lengths are drawn from.
        count: measured prompts.
        warmup: prompts of the warm-up pool.

    Raises:
        ValueError: more prompts than there are pairs of opening words.
    """
    return _pool(name, MEASURE, lengths, seed, count) + _pool(name, WARMUP, lengths, seed, warmup)


def _pool(name: str, pool: str, lengths: Lengths, seed: int, count: int) -> list[Prompt]:
    # Generators of their own, so that the first n prompts are the same however many are asked.
    words, sizes, order, sharing, talk = (
        _generator(name, pool, seed, use) for use in ("words", "sizes", "order", "sharing", "talk")
    )
    prefixes = [_prefix(_generator(name, seed, n), lengths.prefix_tokens) for n in range(lengths.prefix_groups)]
    prompts = []
    shared = 0
    for number, opening in enumerate(_openings(order, pool, count)):
        size = _drawn(sizes, lengths.input_tokens, lengths.input_sd, lengths.distribution)
        size = max(size, lengths.prefix_tokens + 2)
        most = lengths.output_tokens
        answer = None if most is None else _drawn(sizes, most, lengths.output_sd, lengths.distribution)
        group = None
        if lengths.prefix_tokens and (lengths.prefix_share == 1 or sharing.random() < lengths.prefix_share):
            group, shared = shared % lengths.prefix_groups, shared + 1
        prefix = [] if group is None else prefixes[group]
        text = " ".join([*prefix, *opening, *words.choices(_WORDS, k=size - len(prefix) - 2)])
        label = name if pool == MEASURE else f"{name}-{pool}"
        prompts.append(
            Prompt(
                f"{label}-{number + 1:04d}",
                ({"role": "user", "content": text},),
                None,
                "synthetic",
                pool,
                answer,
                input_tokens=size,
                turns=_turns(talk, lengths, text, size, answer) if answer and lengths.turns > 1 else (),
                prefix_group=group,
                prefix_tokens=None if group is None else lengths.prefix_tokens,
            )
        )
    return prompts


def _turns(r: random.Random, lengths: Lengths, first: str, size: int, answer: int) -> tuple[Turn, ...]:
    """A conversation that begins with a question of `size` tokens, whose answer has `answer`."""
    number = _drawn(r, lengths.turns, lengths.turns_sd, lengths.distribution)
    question, total, turns = first, size, list[Turn]()
    for place in range(number):
        think_s = drawn_seconds(r.gauss(0, 1), lengths.think_s, lengths.think_sd) if place else 0.0
        turns.append(Turn(question, _text(r, answer), think_s, answer, total))
        own = _drawn(r, lengths.input_tokens - lengths.prefix_tokens, lengths.input_sd, lengths.distribution)
        question, total = _text(r, own), total + answer + own
        answer = _drawn(r, lengths.output_tokens or answer, lengths.output_sd, lengths.distribution)
    return tuple(turns)


def _text(r: random.Random, tokens: int) -> str:
    """So many words, the first one of those that are one token without a blank before them, too."""
    return " ".join(_prefix(r, tokens))


def _openings(r: random.Random, pool: str, count: int) -> list[tuple[str, str]]:
    firsts = _OPENING_WORDS[-OPENINGS_OF_WARMUP:] if pool == WARMUP else _OPENING_WORDS[:-OPENINGS_OF_WARMUP]
    most = len(firsts) * len(_WORDS)
    if count > most:
        raise ValueError(f"at most {most} synthetic prompts can open differently, but {count} are asked")
    pairs: dict[int, None] = {}
    while len(pairs) < count:
        pairs[r.randrange(most)] = None
    return [(firsts[pair % len(firsts)], _WORDS[pair // len(firsts)]) for pair in pairs]


def _prefix(r: random.Random, tokens: int) -> list[str]:
    return [r.choice(_OPENING_WORDS), *r.choices(_WORDS, k=tokens - 1)] if tokens else []


def _generator(*parts: object) -> random.Random:
    return random.Random("/".join(map(str, parts)))  # noqa: S311 (seeded)


def _drawn(r: random.Random, mean: int, sd: float, distribution: Distribution) -> int:
    """A whole number of tokens, at least 1."""
    if not sd:
        return mean
    if distribution == "uniform":
        drawn = r.uniform(mean - math.sqrt(3) * sd, mean + math.sqrt(3) * sd)
    elif distribution == "lognormal":
        # The mean and deviation of the lengths themselves, not of their logarithms.
        variance = math.log1p((sd / mean) ** 2)
        drawn = r.lognormvariate(math.log(mean) - variance / 2, math.sqrt(variance))
    else:
        drawn = r.gauss(mean, sd)
    return min(max(round(drawn), 1), MOST_TOKENS)
