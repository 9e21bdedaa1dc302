"""One rule says whether runs may be compared: `compare A B` and the history must give the same answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nightly.history.series import breaks_between
from nightly.history.store import History, read_run
from records import JsonObject, RunFolder, write_json
from scoring.comparability import engine_changes, host_changes, host_facts, load_changes, load_hashes
from scoring.compare import compare, compare_runs
from tests.builders import RunBuilder, Speed

CELL = "single.perf-short"
HOST: JsonObject = {
    "kernel": "6.1.0", "cpu": "a CPU", "cores": 16, "cpu_mhz_max": 4199.9,
    "gpu": [{"name": "RTX 5090", "driver": "570.10", "vbios": "98.02", "power_limit_w": 575, "temperature_c": 40}],
}  # fmt: skip


def run_builder() -> RunBuilder:
    run = RunBuilder(engines=("base",))
    run.perf(CELL, {"base": Speed(20, 10, requests=4, tokens=8)})
    run.profile["cells"][0] |= {"options": {}, "request_timeout_s": 600.0, "silence_timeout_s": 120.0, "cores": None}
    run.manifest["host"] = dict(HOST)
    run.states["base", 1]["asked"] |= {"thinking": False, "cache": False}
    return run


def cell(**changes: object) -> Callable[[RunBuilder], None]:
    return lambda run: run.profile["cells"][0].update(changes)


def profile(**changes: object) -> Callable[[RunBuilder], None]:
    return lambda run: run.profile.update(changes)


def host(**changes: object) -> Callable[[RunBuilder], None]:
    return lambda run: run.manifest["host"].update(changes)


def gpu(**changes: object) -> Callable[[RunBuilder], None]:
    return lambda run: run.manifest["host"].update(gpu=[HOST["gpu"][0] | changes])


def engine(section: str, **changes: object) -> Callable[[RunBuilder], None]:
    return lambda run: run.states["base", 1].setdefault(section, {}).update(changes)


def other_prompts(run: RunBuilder) -> None:
    run.workloads["perf-short"] = run.workloads["perf-short"][::-1]


DIFFERENCES: dict[str, Callable[[RunBuilder], None]] = {
    "kernel": host(kernel="6.2.0"),
    "cpu": host(cpu="another"),
    "cores": host(cores=8),
    "clock": host(cpu_mhz_max=3600.0),
    "driver": gpu(driver="575.20"),
    "vbios": gpu(vbios="98.03"),
    "power limit": gpu(power_limit_w=450),
    "no GPU": host(gpu=None),
    "sampling": profile(sampling={"temperature": 0.7, "top_p": 1.0}),
    "context": profile(max_seq_len=512),
    "thinking": profile(thinking=True),
    "cache": profile(cache=True),
    "seed": profile(seed=2),
    "prompts": other_prompts,
    "requests": cell(requests=8),
    "lengths": cell(max_tokens=99),
    "users": cell(users=2),
    "options": cell(options={"rate": 2.0}),
    "request timeout": cell(request_timeout_s=5.0),
    "silence timeout": cell(silence_timeout_s=5.0),
    "client cores": cell(cores="0-1"),
    "weights": engine("weights", source_sha256="9" * 64),
    "slots": engine("readback", slots=2),
    "context per slot": engine("readback", context_per_slot=123),
    "chat template": engine("readback", chat_template_sha256="9" * 64),
}

SAME: dict[str, Callable[[RunBuilder], None]] = {
    "nothing": lambda run: None,
    "a clock that is read a little higher": host(cpu_mhz_max=4200.1),
    "a clock on the other side of a step of 100": host(cpu_mhz_max=4251.0),
    "a temperature": gpu(temperature_c=71),
    "memory": host(memory_bytes=5),
    "more rounds of the cell": cell(rounds=1),
    "a new build": engine("readback", build="b9999"),
    "an argument": lambda run: run.states["base", 1].update(argv=["server", "--new"]),
    "the path of the same weights": lambda run: run.states["base", 1].update(model="/elsewhere/model.gguf"),
    "a key of a newer version that is not set": cell(think_time_s=None),
}


def differ(tmp_path: Path, change: Callable[[RunBuilder], None]) -> tuple[bool, bool]:
    """Whether two runs differ for `compare A B`, and for the history."""
    folders: list[RunFolder] = []
    for name in ("monday", "tuesday"):
        run = run_builder()
        run.manifest |= {"run_id": name, "created_utc": f"2026-01-0{len(folders) + 1}T00:00:00Z"}
        if folders:
            change(run)
        folders.append(run.write(tmp_path / name))
    comparison = compare_runs(*folders, created="now")
    rows = [row for row in comparison["audit"] if row["check"].startswith("runs: ")]
    with History(tmp_path / "h.db") as history:
        for folder in folders:
            write_json(folder.comparison("now", "json"), compare(folder, created="now"))
            history.add(read_run(folder))
        before, after = history.runs()
        breaks = breaks_between(history, before, after, "base", CELL)
    return any(row["status"] in ("fail", "warn") for row in rows), bool(breaks)


@pytest.mark.parametrize("name", DIFFERENCES)
def test_what_differs_for_compare_breaks_a_series_too(tmp_path: Path, name: str) -> None:
    assert differ(tmp_path, DIFFERENCES[name]) == (True, True)


@pytest.mark.parametrize("name", SAME)
def test_what_is_the_same_for_compare_breaks_no_series(tmp_path: Path, name: str) -> None:
    assert differ(tmp_path, SAME[name]) == (False, False)


def test_a_stored_hash_of_a_load_stays_valid() -> None:
    """Made by the version that wrote the first histories."""
    section: JsonObject = {
        "scenario": "closed_loop", "workload": "perf-short", "name": "a.perf-short", "rounds": 2, "requests": 4,
        "duration_s": None, "warmup": 0, "samples": 1, "max_tokens": 16, "fixed_length": True, "users": 4,
        "options": {"rate": 2.0}, "request_timeout_s": 600.0, "silence_timeout_s": 120.0, "cores": None,
    }  # fmt: skip
    shared: JsonObject = {
        "seed": 1,
        "sampling": {"temperature": 0.0},
        "max_seq_len": 1024,
        "thinking": False,
        "cache": False,
    }
    manifest = {"profile": shared | {"cells": [section]}, "workloads": {"perf-short": {"sha256": "w"}}}
    stored = "039f72c43a722098d90fd9a1474e134b89367f4c42edba9056ba1e2c1035d6b2"
    assert load_hashes(manifest) == {"a.perf-short": stored}
    section["added_later"] = shared["sampling"]["added_later"] = None
    assert load_hashes(manifest) == {"a.perf-short": stored}
    section["added_later"] = 1
    assert load_hashes(manifest) != {"a.perf-short": stored}


def test_a_clock_stored_in_steps_of_100_is_the_clock_that_is_read_today() -> None:
    stored = host_facts({"host": HOST}) | {"cpu_mhz_max": 4200}
    assert host_changes(stored, host_facts({"host": HOST | {"cpu_mhz_max": 4249.0}})) == []
    assert host_changes(stored, host_facts({"host": HOST | {"cpu_mhz_max": 4300.0}})) != []


def test_a_host_fact_that_only_one_knows_is_a_difference_and_an_engine_fact_is_not() -> None:
    assert host_changes({"kernel": "6.1"}, {"kernel": None}) == ["kernel 6.1 -> unknown"]
    assert engine_changes({"slots": 4}, {"slots": None}) == []


def test_an_option_that_is_not_set_equals_its_empty_value() -> None:
    assert load_changes({"asked": {"options": {}, "warmup": 0}}, {"asked": {"users": None}}) == []
    assert load_changes({"asked": {"warmup": 0}}, {"asked": {"warmup": 2}}) == ["warmup 0 -> 2"]
