"""A resumed run compares its profile, workloads and host with the stored ones, key by key."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from driver.errors import BenchError
from driver.profile.read import Profile, parse_profile
from driver.profile.sections import Gate
from driver.run import manifest as manifests
from driver.run.manifest import first_difference, open_manifest, profile_sha256
from driver.run.mode_check import refuse_changed
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


def with_a_record(run: Path) -> None:
    (cell := run / "a/r1/single.arithmetic").mkdir(parents=True)
    (cell / "requests.jsonl").write_text("{}\n")


def test_a_run_goes_on_with_what_it_was_begun_with_and_nothing_else(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    open_manifest(folder, profile(), tmp_path / "p.toml", WORKLOADS)
    assert len(open_manifest(folder, profile(), tmp_path / "p.toml", WORKLOADS)["resumed_utc"]) == 1
    with_a_record(tmp_path)
    with pytest.raises(BenchError, match=r"engines\[0\]\.request_extras\.top_k: was null, is 1"):
        open_manifest(folder, profile(request_extras={"top_k": 1}), tmp_path / "p.toml", WORKLOADS)
    with pytest.raises(BenchError, match="workloads have changed since the run was started \\(arithmetic: was"):
        open_manifest(folder, profile(), tmp_path / "p.toml", {"arithmetic": {"sha256": "2" * 64}})


def test_a_key_that_an_earlier_version_did_not_know_is_no_difference(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    open_manifest(folder, profile(), tmp_path / "p.toml", WORKLOADS)
    manifest = read_json(folder.manifest)
    del manifest["profile"]["error_limit"], manifest["profile"]["engines"][0]["slots"]
    write_json(folder.manifest, manifest)
    assert open_manifest(folder, profile(), tmp_path / "p.toml", WORKLOADS)["resumed_utc"]


def test_the_rules_that_judge_nights_may_change_before_a_run_is_finished(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    open_manifest(folder, profile(), tmp_path / "p.toml", WORKLOADS)
    with_a_record(tmp_path)
    judged = profile().model_copy(update={"gate": Gate(threshold=0.5)})
    assert open_manifest(folder, judged, tmp_path / "p.toml", WORKLOADS)["resumed_utc"]


def with_key(key: str) -> Profile:
    return profile(
        url=f"http://reader:{key}@127.0.0.1:9/v1",
        args=["--api-key", key, f"--hf-token={key}", "--seed", "1"],
        env={"HF_TOKEN": key, "HTTPS_PROXY": f"http://me:{key}@proxy:3128", "OMP_NUM_THREADS": "2"},
        request_extras={"top_k": 1, "extra": {"headers": [{"Authorization": f"Bearer {key}"}]}, "stop": ["a"]},
    )


def test_a_runs_manifest_holds_no_secret_of_its_profile_and_the_rest_whole(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    open_manifest(folder, with_key("sk-first"), tmp_path / "p.toml", WORKLOADS)
    assert "sk-first" not in folder.manifest.read_text()
    (engine,) = read_json(folder.manifest)["profile"]["engines"]
    assert engine["url"] == "http://127.0.0.1:9/v1" and engine["args"][-2:] == ["--seed", "1"]
    assert engine["env"] == {"HF_TOKEN": "***", "HTTPS_PROXY": "http://proxy:3128", "OMP_NUM_THREADS": "2"}
    assert engine["request_extras"]["top_k"] == 1 and engine["request_extras"]["stop"] == ["a"]
    assert profile_sha256(with_key("sk-first")) == profile_sha256(with_key("sk-second")) != profile_sha256(profile())


def test_a_secret_that_was_changed_neither_stops_a_run_that_goes_on_nor_is_told(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    manifest = open_manifest(folder, with_key("sk-first"), tmp_path / "p.toml", WORKLOADS)
    open_manifest(folder, with_key("sk-second"), tmp_path / "p.toml", WORKLOADS)
    # As an earlier version wrote it down.
    write_json(folder.manifest, manifest | {"profile": with_key("sk-first").model_dump(mode="json")})
    open_manifest(folder, with_key("sk-second"), tmp_path / "p.toml", WORKLOADS)
    assert "sk-" not in folder.manifest.read_text()
    with_a_record(tmp_path)
    with pytest.raises(BenchError) as refused:
        open_manifest(folder, profile(url="http://me:sk-third@127.0.0.1:9/v1", args=["sk"]), tmp_path / "p", WORKLOADS)
    assert "args: was" in str(refused.value) and not re.search("sk-(first|second|third)", str(refused.value))


def test_a_run_is_not_finished_on_another_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder(tmp_path)
    before = manifests.describe_host()
    manifests.open_manifest(folder, profile(), tmp_path / "p.toml", WORKLOADS)
    with_a_record(tmp_path)
    monkeypatch.setattr(manifests, "describe_host", lambda: before | {"memory_bytes": 1})
    manifests.open_manifest(folder, profile(), tmp_path / "p.toml", WORKLOADS)
    monkeypatch.setattr(manifests, "describe_host", lambda: before | {"cpu": "another"})
    with pytest.raises(BenchError, match=r"was started on another host.*cpu .* -> another"):
        manifests.open_manifest(folder, profile(), tmp_path / "p.toml", WORKLOADS)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"readback": {"build": "b2", "slots": 4}}, "build b1 -> b2"),
        ({"weights": {"sha256": "9" * 64}}, "weights"),
        ({"readback": {"build": "b1", "slots": 2}}, "slots 4 -> 2"),
        ({"provenance": {"sha256": "b" * 64}}, "binary"),
    ],
)
def test_a_run_is_not_finished_with_another_engine(change: dict[str, Any], named: str) -> None:
    before: dict[str, Any] = {
        "readback": {"build": "b1", "slots": 4}, "weights": {"sha256": "1" * 64}, "provenance": {"sha256": "a" * 64},
    }  # fmt: skip
    refuse_changed(before, [before, {}], profile(), "a")
    with pytest.raises(BenchError, match=f"differs from the engine that this run has measured before.*{named}"):
        refuse_changed(before | change, [before], profile(), "a")
    # An engine process that was refused has measured nothing.
    refuse_changed(before | change, [before | {"refused": "another build"}], profile(), "a")
