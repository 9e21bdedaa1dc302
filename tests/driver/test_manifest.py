"""What a run was begun with is compared key by key with what it is to be finished with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from driver.errors import BenchError
from driver.manifest import first_difference, open_manifest
from driver.profile import Profile, parse_profile
from records import RunFolder, read_json, write_json

WORKLOADS = {"arithmetic": {"sha256": "1" * 64, "n": 60}}


def profile(**engine: Any) -> Profile:
    engines = [{"name": "a", "kind": "remote", "url": "http://127.0.0.1:9", **engine}]
    cells = [{"scenario": "single", "workload": "arithmetic", "max_tokens": 8}]
    return parse_profile({"name": "p", "baseline": "a", "engines": engines, "cells": cells}, "p.toml")


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"a": 1}, {"a": 1}, None),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "a.b[1]: was 2, is 3"),
        ({"a": {}}, {"a": {"b": "x"}}, 'a.b: was null, is "x"'),
        ({"a": {"b": "x"}}, {"a": {}}, 'a.b: was "x", is null'),
        ({"a": None}, {}, None),
        ([1], [1, 2], ": was [1], is [1, 2]"),
        ({"a": "x" * 90}, {"a": ""}, 'a: was "' + "x" * 56 + '..., is ""'),
    ],
)
def test_a_difference_is_told_with_its_place(before: Any, now: Any, expected: str | None) -> None:
    assert first_difference(before, now) == expected


def test_a_run_goes_on_with_what_it_was_begun_with_and_nothing_else(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    open_manifest(folder, profile(), tmp_path / "p.toml", WORKLOADS)
    assert len(open_manifest(folder, profile(), tmp_path / "p.toml", WORKLOADS)["resumed_utc"]) == 1
    with pytest.raises(BenchError, match=r"engines\[0\]\.request_extras\.top_k: was null, is 1"):
        open_manifest(folder, profile(request_extras={"top_k": 1}), tmp_path / "p.toml", WORKLOADS)
    with pytest.raises(BenchError, match="workloads have changed since it was begun \\(arithmetic: was"):
        open_manifest(folder, profile(), tmp_path / "p.toml", {"arithmetic": {"sha256": "2" * 64}})


def test_a_key_that_an_earlier_version_did_not_know_is_no_difference(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    open_manifest(folder, profile(), tmp_path / "p.toml", WORKLOADS)
    manifest = read_json(folder.manifest)
    del manifest["profile"]["error_limit"], manifest["profile"]["engines"][0]["slots"]
    write_json(folder.manifest, manifest)
    assert open_manifest(folder, profile(), tmp_path / "p.toml", WORKLOADS)["resumed_utc"]
