"""A run's folder may come from anywhere: one line names the file that is cut, newer, nested, or no file at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from driver.profile.read import ProfileError, parse_profile
from records import JsonObject, RunFolder, read_json, write_json
from scoring.compare import compare
from tests.builders import RunBuilder, Speed

CELL = "single.perf-short"
NESTED = "[" * 100_000 + "]" * 100_000


def folder_of(tmp_path: Path) -> RunFolder:
    run = RunBuilder()
    run.perf(CELL, {"base": Speed(20, 10, requests=4, tokens=8), "cand": Speed(20, 10, requests=4, tokens=8)})
    return run.write(tmp_path / "run")


def refused(folder: RunFolder) -> str:
    with pytest.raises(ValueError) as error:
        compare(folder, created="now")
    assert "\n" not in str(error.value)
    return str(error.value)


def change(path: Path, **values: object) -> None:
    write_json(path, read_json(path) | values)


def test_a_newer_manifest_scenario_and_record_are_refused_by_name(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    cell = folder.round("base", 1).cell(CELL)
    kept = cell.requests.read_text()
    cell.requests.write_text(kept.replace('"schema":1', '"schema":99', 1))
    assert "requests.jsonl: written by a newer version (schema 99" in refused(folder)
    cell.requests.write_text(kept)
    change(cell.scenario, schema=99)
    assert "scenario.json: written by a newer version" in refused(folder)
    change(cell.scenario, schema=1)
    change(folder.round("cand", 1).engine_json, schema=99)
    assert "cand/r1/engine.json: written by a newer version" in refused(folder)
    change(folder.manifest, schema=99)
    assert "run.json: written by a newer version" in refused(folder)


@pytest.mark.parametrize(
    ("file", "values", "says"),
    [
        ("run.json", {"profile": []}, "damaged: profile should be an object, not '[]'"),
        ("run.json", {"order": 5}, "damaged: order should be a list, not '5'"),
        ("run.json", {"host": {"cores": "two"}}, "damaged: host.cores should be a whole number, not 'two'"),
        ("run.json", {"rounds_done": True}, "damaged: rounds_done should be a whole number, not 'True'"),
        ("engine.json", {"machine": "fine"}, "damaged: machine should be an object, not 'fine'"),
        ("engine.json", {"readback": {"slots": [4]}}, "damaged: readback.slots should be a whole number, not '[4]'"),
        ("engine.json", {"argv": ["a", 1]}, "damaged: argv[1] should be a text, not '1'"),
    ],
)
def test_a_damaged_field_is_named_with_what_it_should_be(
    tmp_path: Path, file: str, values: JsonObject, says: str
) -> None:
    folder = folder_of(tmp_path)
    path = folder.manifest if file == "run.json" else folder.round("base", 1).engine_json
    change(path, **values)
    assert refused(folder) == f"{path}: {says}"


@pytest.mark.parametrize("name", ["../elsewhere", "/etc", "..", "a/b", ""])
def test_the_name_of_an_engine_never_leaves_the_folder(tmp_path: Path, name: str) -> None:
    folder = folder_of(tmp_path)
    profile: JsonObject = read_json(folder.manifest)["profile"]
    profile["engines"][1]["name"] = name
    change(folder.manifest, profile=profile)
    assert "run.json: " in refused(folder) and "cannot be the name" in refused(folder)


def test_a_pipe_and_a_deeply_nested_file_are_named_and_nothing_hangs(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    cell = folder.round("base", 1).cell(CELL)
    kept = cell.requests.read_text()
    cell.requests.write_text(NESTED + "\n" + kept)
    assert "requests.jsonl:1: nested too deeply" in refused(folder)
    cell.requests.unlink()
    os.mkfifo(cell.requests)
    assert "requests.jsonl: is not a regular file" in refused(folder)
    for meter in (folder.round("base", 1).gpu, folder.round("base", 1).host, folder.round("base", 1).engine_json):
        cell.requests.unlink()
        cell.requests.write_text(kept)
        meter.unlink(missing_ok=True)
        os.mkfifo(meter)
        assert f"{meter.name}: is not a regular file" in refused(folder)
        meter.unlink()
    folder.manifest.write_text(NESTED)
    assert "run.json: nested too deeply" in refused(folder)
    folder.manifest.unlink()
    os.mkfifo(folder.manifest)
    assert "run.json: is not a regular file" in refused(folder)


@pytest.mark.parametrize("name", ["run.json", "workloads", "comparison-1"])
def test_an_engine_is_not_named_like_a_file_of_the_run(name: str) -> None:
    with pytest.raises(ProfileError, match="is taken by a file or folder of the run"):
        parse_profile(profile(engine=name), "p.toml")


@pytest.mark.parametrize("name", ["engine.json", "server.log", "gpu.jsonl", "engine.partial-1.json"])
def test_a_cell_is_not_named_like_a_file_of_the_round(name: str) -> None:
    with pytest.raises(ProfileError, match="is taken by a file of the round"):
        parse_profile(profile(cell=name), "p.toml")


def profile(engine: str = "a", cell: str = "single.arithmetic") -> JsonObject:
    section = {"scenario": "single", "workload": "arithmetic", "max_tokens": 8, "name": cell}
    engines = [{"name": engine, "kind": "remote", "url": "http://127.0.0.1:9"}]
    return {"name": "p", "baseline": engine, "engines": engines, "cells": [section]}
