"""Synthetic prompts have the planned tokens, share no beginning but the planned prefix, and are always the same."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

from workloads import Prompt, read_prompts, write_prompts
from workloads.synthetic import Distribution, Lengths, synthetic_prompts


def words(prompt: Prompt) -> list[str]:
    return prompt.messages[0]["content"].split(" ")


def made(lengths: Lengths, *, seed: int = 1, count: int = 200, warmup: int = 8) -> list[Prompt]:
    return synthetic_prompts("s", lengths, seed=seed, count=count, warmup=warmup)


def test_each_prompt_has_the_planned_tokens_and_says_so_in_its_file(tmp_path: Path) -> None:
    prompts = made(Lengths(512, output_tokens=64))
    assert {(len(words(prompt)), prompt.input_tokens, prompt.max_tokens) for prompt in prompts} == {(512, 512, 64)}
    assert [prompt.pool for prompt in prompts] == ["measure"] * 200 + ["warmup"] * 8
    write_prompts(tmp_path / "s.jsonl", prompts)
    assert read_prompts(tmp_path / "s.jsonl") == prompts


def test_no_two_prompts_begin_alike_and_none_as_a_warm_up() -> None:
    prompts = made(Lengths(2), count=5000)
    assert len({tuple(words(prompt)) for prompt in prompts}) == 5008
    firsts = {pool: {words(p)[0] for p in prompts if p.pool == pool} for pool in ("measure", "warmup")}
    assert not firsts["measure"] & firsts["warmup"]


def test_the_same_seed_gives_the_same_prompts_however_many_are_asked() -> None:
    lengths = Lengths(64, input_sd=8)
    assert made(lengths, count=10)[:10] == made(lengths, count=300)[:10]
    assert made(lengths, seed=2)[0] != made(lengths)[0]


def test_groups_take_their_prefixes_in_turn_and_share_nothing_else() -> None:
    prompts = made(Lengths(100, prefix_tokens=60, prefix_groups=3), count=9, warmup=3)
    prefixes = [tuple(words(prompt)[:60]) for prompt in prompts]
    assert len(set(prefixes)) == 3
    assert prefixes[:3] == prefixes[3:6] == prefixes[9:]
    assert len({tuple(words(prompt)[60:62]) for prompt in prompts}) == 12
    assert {len(words(prompt)) for prompt in prompts} == {100}


@pytest.mark.parametrize("distribution", ["normal", "uniform", "lognormal"])
def test_lengths_have_the_mean_and_deviation_that_were_asked(distribution: Distribution) -> None:
    prompts = made(Lengths(400, 80, 60, 20, distribution), count=4000)
    for sizes, mean, sd in (
        ([p.input_tokens or 0 for p in prompts], 400, 60),
        ([p.max_tokens or 0 for p in prompts], 80, 20),
    ):
        assert statistics.mean(sizes) == pytest.approx(mean, rel=0.02)
        assert statistics.stdev(sizes) == pytest.approx(sd, rel=0.05)


def test_a_length_is_never_less_than_a_prompt_needs() -> None:
    prompts = made(Lengths(20, 2, 40, 5, prefix_tokens=10), count=500)
    assert min(p.input_tokens or 0 for p in prompts) == 12
    assert min(p.max_tokens or 0 for p in prompts) == 1
    assert all(len(words(prompt)) == prompt.input_tokens for prompt in prompts)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ({"input_tokens": 10, "prefix_tokens": 9}, "prefix_tokens 9 leaves a prompt of 10 tokens fewer than two"),
        ({"input_tokens": 10, "output_sd": 1.0}, "output_sd needs output_tokens"),
    ],
)
def test_lengths_that_cannot_be_are_refused(lengths: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Lengths(**lengths)


def test_more_prompts_than_openings_are_refused() -> None:
    with pytest.raises(ValueError, match="can open differently, but 1000000 are asked"):
        made(Lengths(8), count=1_000_000)
