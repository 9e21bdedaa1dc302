"""Prompts, their shards, and arrival times."""

import itertools
from pathlib import Path
from statistics import mean, pstdev
from types import SimpleNamespace

import pytest

from load.schedule.admission import Admission
from load.schedule.tickets import Prompts, Shard, arrivals
from tests.load.load import prompts_file
from workloads import Prompt, load_prompts


def prompts(measured: int, warm: int = 0) -> list[Prompt]:
    def one(name: str, pool: str) -> Prompt:
        messages = ({"role": "user", "content": name},)
        return Prompt(prompt_id=name, messages=messages, gold=None, task="jsonl", pool=pool, max_tokens=None)

    return [one(f"m{n}", "measure") for n in range(measured)] + [one(f"w{n}", "warmup") for n in range(warm)]


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_the_shards_of_all_workers_are_the_whole_without_overlap(workers: int) -> None:
    shards = [Shard(index, workers) for index in range(workers)]
    items = prompts(20)
    assert sorted(p.prompt_id for shard in shards for p in shard.of(items)) == sorted(p.prompt_id for p in items)
    assert sum(shard.share(20) for shard in shards) == 20


@pytest.mark.parametrize("index", [0, 1, 2])
def test_warm_up_prompts_are_never_measured_even_where_there_are_more_workers_than_of_them(index: int) -> None:
    split = Prompts(prompts(10, warm=2), warmup=4, shard=Shard(index, 3))
    warm = {split.warmup().prompt_id for _ in range(20)}
    assert warm == [{"w0"}, {"w1"}, {"w0", "w1"}][index]
    assert {p.prompt_id for p in split.measured} == {f"m{n}" for n in range(index, 10, 3)}


def test_a_users_own_file_is_measured_whole_and_warmed_up_with_other_prompts(tmp_path: Path) -> None:
    split = Prompts(load_prompts(str(prompts_file(tmp_path / "one.jsonl", ["a"]))), warmup=1, shard=Shard())
    assert [p.prompt_id for p in split.measured] == ["p0"] and split.warmup().prompt_id != "p0"


def test_every_prompt_is_asked_as_often_as_there_are_samples() -> None:
    asked = [(p.prompt_id, sample) for p, sample in Prompts(prompts(2), warmup=0, shard=Shard()).once(3)]
    assert sorted(asked) == [("m0", 0), ("m0", 1), ("m0", 2), ("m1", 0), ("m1", 1), ("m1", 2)]


def gaps(kind: str, *, burstiness: float = 1.0, seed: int = 1) -> list[float]:
    times = list(itertools.islice(arrivals(kind, 10.0, burstiness, seed), 20_000))
    return [b - a for a, b in itertools.pairwise(times)]


@pytest.mark.parametrize(
    ("kind", "burstiness", "variation"),
    [("constant", 1.0, 0.0), ("poisson", 1.0, 1.0), ("gamma", 0.25, 2.0), ("gamma", 4.0, 0.5)],
)
def test_arrivals_have_the_asked_rate_and_spread(kind: str, burstiness: float, variation: float) -> None:
    found = gaps(kind, burstiness=burstiness)
    assert mean(found) == pytest.approx(0.1, rel=0.05)
    assert pstdev(found) / mean(found) == pytest.approx(variation, rel=0.05, abs=1e-6)


def test_a_seed_gives_the_same_arrivals_again() -> None:
    assert gaps("poisson", seed=3) == gaps("poisson", seed=3) != gaps("poisson", seed=4)


def test_the_even_schedules_of_several_workers_are_one_even_schedule() -> None:
    options = SimpleNamespace(arrivals="constant", rate=8.0, burstiness=1.0, seed=1, warmup=0)
    due: list[int] = []
    for index in range(4):
        mine = Prompts(prompts(8), warmup=0, shard=Shard())
        worker = Admission(
            options, "open", mine, Shard(index, 4), lambda: 1, on_measure=lambda: None, on_idle=lambda: None
        )
        worker._start_arrivals(options.rate, 0)
        assert worker._due is not None
        due += itertools.islice(worker._due, 3)
    assert sorted(due) == [125_000_000 * n for n in range(12)]
