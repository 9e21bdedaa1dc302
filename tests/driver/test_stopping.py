"""`rounds = "auto"`: when a run stops, and what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from driver.profile.read import Profile, ProfileError, parse_profile
from driver.run import run as run_module
from driver.run.plan import EngineRound, engine_rounds
from driver.run.progress import Display
from driver.run.stopping import LEAST_CELL_S, fitting_share, shortened, why_stop, why_stop_counted
from records import JsonObject, RunFolder, read_json, write_json
from scoring.compare import compare
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


def test_a_figure_may_be_decided_by_its_side_of_a_ratio(tmp_path: Path) -> None:
    """A bisection asks whether a commit is below half of the slowdown: to be slower at all does not answer that."""
    folder = run_of(tmp_path, 3, 0.9, 0.02)
    times = {"elapsed_s": 30.0, "round_s": 10.0, "time_s": 600.0}
    assert why_stop(folder, 3, **times, side_of=0.9) is None
    assert why_stop(folder, 3, **times, side_of=0.2) == "all 3 deciding figures are decided after 3 rounds"
    found = why_stop(folder, 3, **(times | {"elapsed_s": 595.0}), side_of=0.9)
    assert found is not None and "3 of 3 deciding figures are open" in found


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


def planned(*durations: float) -> list[EngineRound]:
    cells = [{"scenario": "single", "workload": "perf-short", "name": f"x.c{n}", "duration_s": s, "max_tokens": 8}
             for n, s in enumerate(durations)]  # fmt: skip
    return [round_ for round_ in engine_rounds(profile(cells=cells, rounds=3)) if round_.number == 1]


def test_cells_are_shortened_so_that_the_rounds_that_are_left_end_in_time() -> None:
    # Two engines measure 2 x (4 + 6) s; the round took 50 s, so that 30 s of it are no measuring.
    of_round = planned(4, 6)
    assert fitting_share(of_round, round_s=50, left_s=100, rounds=2) == 1
    assert fitting_share(of_round, round_s=50, left_s=80, rounds=2) == pytest.approx(0.5)
    assert fitting_share(of_round, round_s=50, left_s=20, rounds=2) == LEAST_CELL_S / 4
    assert [cell.duration_s for cell in shortened(of_round[0], 0.5).cells] == [2, 3]
    assert shortened(of_round[0], 1) is of_round[0]


def test_a_counted_run_stops_before_the_round_that_cannot_end_in_time() -> None:
    assert why_stop_counted(2, 3, elapsed_s=60, round_s=30, time_s=90) is None
    assert why_stop_counted(3, 3, elapsed_s=95, round_s=30, time_s=90) is None
    assert why_stop_counted(2, 3, elapsed_s=70, round_s=30, time_s=90) == (
        "the time is up after 2 rounds of 3; a verdict needs 3: the others need 1 minute more"
    )


def timed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: float, **values: Any) -> tuple[float, JsonObject]:
    """A run whose engines take `busy` x (2 s and the measuring): the seconds that it took, and its manifest."""
    clock = [0.0]

    def run_engine_round(
        run: RunFolder, profile: Profile, round_: EngineRound, display: Display, *, keep_raw: bool
    ) -> bool:
        clock[0] += busy * (2 + sum(cell.duration_s or 0 for cell in round_.cells))
        return True

    monkeypatch.setattr(run_module, "run_engine_round", run_engine_round)
    monkeypatch.setattr("driver.run.stopping.time.monotonic", lambda: clock[0])
    cell = {"scenario": "single", "workload": "perf-short", "duration_s": 10, "max_tokens": 8}
    manifest: JsonObject = {}
    asked = profile(cells=[cell], **values)
    run_module._run_rounds(RunFolder(tmp_path), asked, manifest, Display(quiet=True), keep_raw=False)
    return clock[0], manifest


@pytest.mark.parametrize(("busy", "rounds"), [(1, 3), (1.5, 3), (3, 1)])
def test_a_busy_machine_gets_shorter_cells_and_no_round_that_cannot_end_in_time(
    busy: float, rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    took, manifest = timed_run(tmp_path, monkeypatch, busy, rounds=3, time="72s")
    assert took <= 72 and manifest["rounds_done"] == rounds
    assert ("stopped" in manifest) == (rounds < 3)


def test_only_the_first_round_may_take_longer_than_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    took, manifest = timed_run(tmp_path, monkeypatch, 5, rounds="auto", time="72s")
    assert took == 5 * 24 and manifest["rounds_done"] == 1
    assert manifest["order"] == [["b", 1], ["a", 1]] or manifest["order"] == [["a", 1], ["b", 1]]


def test_a_figure_that_a_failed_round_lacks_is_open(tmp_path: Path) -> None:
    folder = run_of(tmp_path, 3, 0.5)
    requests = folder.round("cand", 2).cell(CELL).requests
    rows = [json.loads(line) for line in requests.read_text().splitlines()]
    for row in rows:
        row |= {"status": "error", "error": {"kind": "busy", "message": "x"}}
    requests.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = why_stop(folder, 3, elapsed_s=595, round_s=10, time_s=600)
    assert found is not None and "3 of 3 deciding figures are open" in found


def test_the_whole_rounds_of_an_interrupted_run_are_compared(tmp_path: Path) -> None:
    folder = run_of(tmp_path, 4, 0.5)
    manifest = read_json(folder.manifest)
    write_json(folder.manifest, manifest | {"rounds_done": 3})
    folder.round("cand", 4).cell(CELL).scenario.unlink()
    comparison = compare(folder, created="x")
    row = next(row for row in comparison["performance"] if row["metric"] == "output_tok_s")
    assert [sorted(figure["rounds"]) for figure in row["engines"].values()] == [["1", "2", "3"]] * 2
    (complete,) = (row for row in comparison["audit"] if (row["check"], row["engine"]) == ("round complete", "cand"))
    assert complete["status"] == "pass"


def test_a_profile_asks_for_auto_with_a_time() -> None:
    assert profile(rounds="auto", time="3m").time_s == 180
    assert profile(rounds="auto").time_s == 600
    assert profile().rounds == 3


@pytest.mark.parametrize(("values", "line"), [
    ({"time": "soon"}, "time: "),
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

    def run_engine_round(
        run: RunFolder, profile: Profile, round_: EngineRound, display: Display, *, keep_raw: bool
    ) -> bool:
        lived.append((round_.engine.name, round_.number))
        return True

    def decided(folder: RunFolder, rounds: int, **times: float) -> str:
        looks.append(rounds)
        return "decided"

    monkeypatch.setattr(run_module, "run_engine_round", run_engine_round)
    monkeypatch.setattr("driver.run.stopping.why_stop", decided)
    # Its first attempt stopped after three rounds, for lack of time.
    manifest: JsonObject = {"rounds_done": 3, "order": [["a", 1], ["b", 1]]}
    run_module._run_rounds(folder, profile(rounds="auto"), manifest, Display(quiet=True), keep_raw=False)
    assert looks == [4]
    assert sorted(lived) == [(name, number) for name in ("a", "b") for number in (1, 2, 3, 4)]
    assert manifest["rounds_done"] == 4
    assert [(name, number) for name, number in manifest["order"]] == lived
