"""The JSON Schemas in docs/ describe what is written, and refuse what must not be."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from driver.compare_and_report import judge, judge_runs
from records import ErrorKind, JsonObject, Phase, Record
from scoring.compare import compare
from tests.builders import RunBuilder, Speed, fail
from tests.reference_run import reference_run

DOCS = Path(__file__).resolve().parents[2] / "docs"


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((DOCS / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def built() -> RunBuilder:
    run = RunBuilder(rounds=2)
    run.perf("single.perf-short", {"base": Speed(20, 10, tokens=8), "cand": Speed(30, 12, tokens=8, timings=False)})
    for key in run.states:
        run.gpu[key] = [
            {"t_ns": 50_000_000_000_000 + i * 10**8, "gpus": [{"power_w": 90.0, "memory_used_mib": 800.0}]}
            for i in range(200)
        ]
    fail(run.every_record("cand")[-1])
    return run


@pytest.mark.parametrize("void", [False, True])
def test_a_comparison_of_the_reference_run_is_valid(tmp_path: Path, *, void: bool) -> None:
    _, path = judge(reference_run(wrong_context=void).write(tmp_path / "run"))
    validator("comparison").validate(json.loads(path.read_text()))


def test_comparisons_with_rounds_errors_gpu_and_of_two_runs_are_valid(tmp_path: Path) -> None:
    a, b = built().write(tmp_path / "a"), built().write(tmp_path / "b")
    for _, path in (judge(a), judge_runs(a, b)):
        validator("comparison").validate(json.loads(path.read_text()))


def test_a_status_outside_the_closed_list_is_not_valid(tmp_path: Path) -> None:
    comparison = compare(built().write(tmp_path / "a"), created="now")
    comparison["audit"][0]["status"] = "fine"
    assert not validator("comparison").is_valid(comparison)


def test_written_records_are_valid_and_every_field_is_described() -> None:
    schema = json.loads((DOCS / "record.schema.json").read_text())
    assert set(schema["properties"]) == {f.name for f in fields(Record)} == set(schema["required"])
    assert schema["properties"]["phase"]["enum"] == [phase.value for phase in Phase]
    kinds = schema["properties"]["error"]["anyOf"][0]["properties"]["kind"]["enum"]
    assert set(kinds) == {kind.value for kind in ErrorKind}
    for record in built().every_record():
        validator("record").validate(json.loads(record.to_json_line()))


@pytest.mark.parametrize(
    "change",
    [
        {"status": "error", "error": None},
        {"status": "ok", "error": {"kind": "aborted", "message": ""}},
        {"status": "error", "error": {"kind": "something", "message": ""}},
        {"finish_reason": None},
        {"phase": "rampup"},
        {"sent_ns": 1.5},
        {"prompt_sha256": "x"},
    ],
)
def test_a_record_that_contradicts_itself_is_not_valid(change: JsonObject) -> None:
    record: JsonObject = built().every_record("base")[0].to_dict() | change
    assert not validator("record").is_valid(record)
