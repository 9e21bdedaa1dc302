"""`rounds = "auto"`: when a run stops, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from driver.profile.read import Profile, ProfileError, parse_profile
from driver.run import run as run_module
from driver.run.plan import Life
from driver.run.progress import Display
from driver.run.stopping import why_stop
from records import JsonObject, RunFolder
from tests.builders import RunBuilder, Speed

CELL = "single.perf-short"


def run_of(tmp_path: Path, rounds: int, ratio: float, run_noise: float = 0.005) -> RunFolder:
    run = RunBuilder(rounds=rounds, seed=3, profile={"rounds": "auto"})
    base = Speed(20, 10, requests=6, tokens=16, run_noise=run_noise)
    cand = Speed(20 / ratio, 10 / ratio, requests=6, tokens=16, run_noise=run_noise)
    run.perf(CELL, {"base": base, "cand": cand})
    return run.write(tmp_path / "run")


def test_a_run_stops_when_all_is_decided(tmp_path: Path) -> None:
    folder = run_of(tmp_path, 3, 0.5)
    found = why_stop(folder, 3, elapsed_s=30, round_s=10, time_s=600)
    assert found == "all 3 deciding figures are decided after 3 rounds"


def test_a_run_goes_on_while_figures_are_open_and_there_is_time(tmp_path: Path) -> None:
    folder = run_of(tmp_path, 3, 0.97, 0.02)
    assert why_stop(folder, 3, elapsed_s=30, round_s=10, time_s=600) is None
    found = why_stop(folder, 3, elapsed_s=595, round_s=10, time_s=600)
    assert found is not None
    assert found.startswith("the time is up after 3 rounds: ")
    assert "of 3 deciding figures are open; " in found


def test_below_three_rounds_only_the_time_stops_a_run(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert why_stop(folder, 1, elapsed_s=10, round_s=10, time_s=600) is None
    assert why_stop(folder, 1, elapsed_s=300, round_s=300, time_s=400) == (
        "the time is up after 1 round, and a verdict needs 3: about 10 minutes more"
    )


def profile(**values: Any) -> Profile:
    engines = [{"name": name, "kind": "remote", "url": "http://127.0.0.1:9"} for name in ("a", "b")]
    cells = [{"scenario": "single", "workload": "perf-short", "requests": 10, "max_tokens": 8}]
    return parse_profile({"name": "p", "baseline": "a", "engines": engines, "cells": cells} | values, "p.toml")


def test_a_profile_asks_for_auto_with_a_time() -> None:
    assert profile(rounds="auto", time="3m").time_s == 180
    assert profile(rounds="auto").time_s == 600
    assert profile().rounds == 3


@pytest.mark.parametrize(("values", "line"), [
    ({"time": "3m"}, 'time: is only for rounds = "auto"'),
    ({"rounds": "auto", "time": "soon"}, "time: "),
    ({"rounds": "often"}, "rounds"),
])  # fmt: skip
def test_what_is_no_rounds_or_no_time_is_one_line(values: dict[str, Any], line: str) -> None:
    with pytest.raises(ProfileError, match=line) as caught:
        profile(**values)
    assert len(str(caught.value).splitlines()) == 1


def test_a_resumed_run_finishes_the_round_that_it_began_before_it_may_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")
    for name, rounds in (("a", 4), ("b", 3)):
        for number in range(1, rounds + 1):
            folder.round(name, number).path.mkdir(parents=True)
    lived: list[tuple[str, int]] = []
    looks: list[int] = []

    def run_life(run: RunFolder, profile: Profile, life: Life, display: Display, *, keep_raw: bool) -> bool:
        lived.append((life.engine.name, life.round))
        return True

    def decided(folder: RunFolder, rounds: int, **times: float) -> str:
        looks.append(rounds)
        return "decided"

    monkeypatch.setattr(run_module, "run_life", run_life)
    monkeypatch.setattr(run_module, "why_stop", decided)
    # Its first attempt stopped after three rounds, for lack of time.
    manifest: JsonObject = {"rounds_done": 3, "order": [["a", 1], ["b", 1]]}
    run_module._live(folder, profile(rounds="auto"), manifest, Display(quiet=True), keep_raw=False)
    assert looks == [4]
    assert sorted(lived) == [(name, number) for name in ("a", "b") for number in (1, 2, 3, 4)]
    assert manifest["rounds_done"] == 4
    assert [(name, number) for name, number in manifest["order"]] == lived
