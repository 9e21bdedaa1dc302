"""The plan: which engine lives when, with which cells, and how long that may take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from driver.profile.read import Profile, parse_profile
from driver.run.plan import ASSUMED_START_S, ASSUMED_TOKEN_S, earlier_runs, estimate, lives, pending
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
    found = [(life.engine.name, life.round, [cell.label for cell in life.cells]) for life in lives(profile())]
    all_cells = ["single.perf-short", "single.arithmetic", "ramp.perf-short"]
    later = ["single.perf-short", "ramp.perf-short"]
    assert found == [("a", 1, all_cells), ("b", 1, all_cells), ("a", 2, later), ("b", 2, later)]


def test_the_estimate_counts_each_cell_as_often_as_it_is_lived() -> None:
    guess = estimate(profile(), {"arithmetic": 5, "perf-short": 1024}, [])
    perf, quality, ramp = 12 * 8 * ASSUMED_TOKEN_S, 10 * 50 * ASSUMED_TOKEN_S, 30.0
    assert guess.seconds == pytest.approx(4 * (ASSUMED_START_S + perf + ramp) + 2 * quality)
    assert "ms a token" in guess.basis


def test_an_earlier_run_of_the_same_profile_that_was_not_broken_off_is_the_better_guess(tmp_path: Path) -> None:
    def ran(name: str, **told: Any) -> None:
        (tmp_path / name).mkdir()
        write_json(tmp_path / name / "run.json", told)

    ran("other", took_s=5, profile={"name": "q"})
    ran("resumed", took_s=5, profile={"name": "p"}, resumed_utc=["x"])
    ran("unfinished", profile={"name": "p"})
    ran("odd", took_s=5, profile=[1])
    assert "ms a token" in estimate(profile(), {}, earlier_runs(tmp_path)).basis
    ran("whole", took_s=77, profile={"name": "p"})
    guess = estimate(profile(), {}, earlier_runs(tmp_path))
    assert (guess.seconds, guess.basis) == (77.0, "as long as whole took")


def test_only_complete_cells_are_not_done_again(tmp_path: Path) -> None:
    folder, life = RunFolder(tmp_path), next(lives(profile()))
    assert len(pending(folder, life)) == 3
    cell = folder.round("a", 1).cell("single.arithmetic")
    cell.path.mkdir(parents=True)
    write_json(cell.scenario, {"complete": False})
    assert len(pending(folder, life)) == 3
    write_json(cell.scenario, {"complete": True})
    assert [each.label for each in pending(folder, life)] == ["single.perf-short", "ramp.perf-short"]
