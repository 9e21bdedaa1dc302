"""The plan: the order of the engines, their cells, and the estimated time."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from driver.profile.read import Profile, load_profile, parse_profile
from driver.run.plan import (
    ASSUMED_TOKEN_S,
    earlier_runs,
    engine_rounds,
    estimate,
    pending,
    round_orders,
)
from engines import KINDS
from records import RunFolder, write_json


def profile(**values: Any) -> Profile:
    engines = [{"name": name, "kind": "remote", "url": "http://127.0.0.1:9"} for name in ("a", "b")]
    cells = [
        {"scenario": "single", "workload": "perf-short", "requests": 10, "warmup": 2, "max_tokens": 8},
        {"scenario": "single", "workload": "arithmetic", "max_tokens": 50, "rounds": 1, "samples": 2},
        {"scenario": "ramp", "workload": "perf-short", "duration_s": 30, "max_tokens": 8},
    ]
    return parse_profile({"name": "p", "baseline": "a", "rounds": 2, "engines": engines, "cells": cells} | values, "p")


def test_rounds_interleave_and_a_cell_may_be_in_the_first_alone() -> None:
    found = [
        (round_.engine.name, round_.number, [cell.label for cell in round_.cells])
        for round_ in engine_rounds(profile())
    ]
    all_cells = ["single.perf-short", "single.arithmetic", "ramp.perf-short"]
    later = ["single.perf-short", "ramp.perf-short"]
    assert found == [("a", 1, all_cells), ("b", 1, all_cells), ("b", 2, later), ("a", 2, later)]


@pytest.mark.parametrize("engines", [["a", "b"], ["a", "b", "c"]])
def test_the_order_is_drawn_from_the_seed_and_each_second_round_reverses_the_first(engines: list[str]) -> None:
    rounds = list(islice(round_orders(engines, seed=7), 400))
    assert rounds == list(islice(round_orders(engines, seed=7), 400))
    assert rounds != list(islice(round_orders(engines, seed=8), 400))
    assert all(second == first[::-1] for first, second in batched_pairs(rounds))
    # Each pair is drawn anew: of 200 pairs, about 200 / n begin with a given engine.
    firsts = Counter(first[0] for first, _ in batched_pairs(rounds))
    assert all(abs(firsts[engine] - 200 / len(engines)) < 35 for engine in engines)


def batched_pairs(rounds: list[list[str]]) -> list[tuple[list[str], list[str]]]:
    return list(zip(rounds[::2], rounds[1::2], strict=True))


def test_the_estimate_counts_each_cell_as_often_as_it_is_lived() -> None:
    guess = estimate(profile(), {"arithmetic": 5, "perf-short": 1024}, [])
    perf, quality, ramp = 12 * 8 * ASSUMED_TOKEN_S, 10 * 50 * ASSUMED_TOKEN_S, 30.0
    assert guess.seconds == pytest.approx(4 * (KINDS["remote"].usual_start_s + perf + ramp) + 2 * quality)
    assert "ms per token" in guess.basis


def test_the_estimate_knows_that_streams_go_on_side_by_side_and_that_some_engines_start_slowly() -> None:
    def seconds(kind: str, **cell: Any) -> float:
        section = {"name": "a", "kind": kind, "slots": 4}
        asked = {"workload": "perf-short", "requests": 80, "max_tokens": 8, **cell}
        return estimate(profile(rounds=1, engines=[section], cells=[asked]), {}, []).seconds

    start = KINDS["llama_cpp"].usual_start_s
    alone = seconds("llama_cpp", scenario="single") - start
    assert seconds("llama_cpp", scenario="concurrent_4") - start == pytest.approx(alone / 4)
    assert seconds("llama_cpp", scenario="closed_loop", users=2) - start == pytest.approx(alone / 2)
    # More users than slots wait for each other.
    assert seconds("llama_cpp", scenario="closed_loop", users=16) - start == pytest.approx(alone / 4)
    assert seconds("vllm", scenario="single") - alone > start + 30


def test_three_engines_on_a_card_are_estimated_near_what_they_took() -> None:
    """Three rounds took 11.4 minutes on one H200, first starts among them."""
    asked = load_profile("profiles/qwen3-8b-engines-h200.toml")
    whole = estimate(asked.model_copy(update={"time": None}), {"perf-medium": 1024}, [])
    assert whole.seconds / 5 * 3 == pytest.approx(11.4 * 60, rel=0.15)


def test_a_time_ends_a_run_that_would_take_longer() -> None:
    short, long = estimate(profile(time="10s"), {}, []), estimate(profile(time="20m"), {}, [])
    assert (short.seconds, short.basis) == (10.0, "the time that the profile gives")
    assert long.seconds == estimate(profile(), {}, []).seconds


def test_an_earlier_run_of_the_same_profile_that_was_not_broken_off_is_the_better_guess(tmp_path: Path) -> None:
    def ran(name: str, **told: Any) -> None:
        (tmp_path / name).mkdir()
        write_json(tmp_path / name / "run.json", told)

    ran("other", took_s=5, profile={"name": "q"})
    ran("resumed", took_s=5, profile={"name": "p"}, resumed_utc=["x"])
    ran("unfinished", profile={"name": "p"})
    ran("odd", took_s=5, profile=[1])
    assert "ms per token" in estimate(profile(), {}, earlier_runs(tmp_path)).basis
    ran("whole", took_s=77, profile={"name": "p"})
    guess = estimate(profile(), {}, earlier_runs(tmp_path))
    assert (guess.seconds, guess.basis) == (77.0, "as long as whole took")


def test_only_complete_cells_are_not_done_again(tmp_path: Path) -> None:
    folder, round_ = RunFolder(tmp_path), next(engine_rounds(profile()))
    assert len(pending(folder, round_)) == 3
    cell = folder.round("a", 1).cell("single.arithmetic")
    cell.path.mkdir(parents=True)
    write_json(cell.scenario, {"complete": False})
    assert len(pending(folder, round_)) == 3
    write_json(cell.scenario, {"complete": True})
    assert [each.label for each in pending(folder, round_)] == ["single.perf-short", "ramp.perf-short"]
