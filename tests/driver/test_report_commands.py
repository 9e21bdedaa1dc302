"""`compare` and `report` as they are typed, with relative paths in a folder that is not the checkout."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from driver.cli import cli
from tests.builders import RunBuilder, Speed, fail

CELL = "single.perf-short"


def built(tpot_ms: float = 10) -> RunBuilder:
    run = RunBuilder()
    run.perf(CELL, {name: Speed(20, tpot_ms, requests=12, tokens=16) for name in ("base", "cand")})
    return run


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def cases(path: Path, suite: str) -> dict[str, Xml.Element]:
    [found] = [each for each in Xml.parse(path).getroot() if each.get("name") == suite]
    return {f"{case.get('classname')} {case.get('name')}": case for case in found}


def test_junit_is_written_where_it_is_asked_for_and_names_the_requests_that_failed() -> None:
    run = built()
    run.profile["error_limit"] = 0.5
    broken = run.every_record("cand")[-1]
    fail(broken)
    broken.error = {"kind": "http_status", "message": "503 Service Unavailable"}
    run.write(Path("runs/mine").absolute())
    assert cli(["compare", "runs/mine", "--junit", "reports/a.xml"]) == 1
    assert cli(["report", "runs/mine", "--junit", "reports/b.xml"]) == 1
    assert Path("reports/a.xml").read_bytes() == Path("reports/b.xml").read_bytes()
    found = cases(Path("reports/a.xml"), "requests")
    assert found[f"base.{CELL} requests"].find("failure") is None
    told = str(found[f"cand.{CELL} requests"].findtext("failure"))
    assert told == f"cand, {CELL}: 1 of 12 requests failed: 1 http_status: 503 Service Unavailable"


def test_the_comparison_holds_the_finding_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    built().write(Path("runs/mine").absolute())
    assert cli(["compare", "runs/mine"]) == 0
    [path] = Path("runs/mine").glob("comparison-*.json")
    summary = json.loads(path.read_text())["verdict"]["summary"]
    assert summary.startswith(capsys.readouterr().out.splitlines()[0])
    assert summary.startswith("Fair. No verdict on speed: 1 round of each engine")


def test_two_runs_that_do_not_match_are_void_and_the_reason_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    built().write(Path("runs/monday").absolute())
    other = built(tpot_ms=8)
    for state in other.states.values():
        state["weights"]["source_sha256"] = "9" * 64
    other.write(Path("runs/tuesday").absolute())
    assert cli(["compare", "runs/monday", "runs/tuesday"]) == 3
    told = capsys.readouterr().out
    assert told.startswith("VOID") and "runs: model" in told.splitlines()[0]
    assert list(Path("runs/tuesday").glob("comparison-*-against-monday.html"))


def test_one_engine_of_each_run_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    built().write(Path("runs/monday").absolute())
    built(tpot_ms=8).write(Path("runs/tuesday").absolute())
    named = ["--engine-a", "base", "--engine-b", "cand"]
    assert cli(["compare", "runs/monday", "runs/tuesday", *named, "--json"]) == 0
    comparison = json.loads(capsys.readouterr().out)
    assert list(comparison["engines"]) == ["base@monday", "cand@tuesday"]
    [row] = [r for r in comparison["performance"] if r["metric"] == "tpot_ms_p50"]
    assert row["speed_ratio"]["cand@tuesday"]["value"] == pytest.approx(1.25, rel=0.05)


def test_an_engine_that_its_run_has_not_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("monday", "tuesday"):
        built().write(Path("runs", name).absolute())
    for option, run in (("--engine-a", "monday"), ("--engine-b", "tuesday")):
        assert cli(["compare", "runs/monday", "runs/tuesday", option, "nope"]) == 2
        told = capsys.readouterr().err
        assert f"{Path('runs', run)}: has no engine 'nope'; it has base, cand" in told and told.count("\n") == 1


def test_an_engine_without_a_second_run_and_a_run_against_itself_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    built().write(Path("runs/monday").absolute())
    assert cli(["compare", "runs/monday", "--engine-a", "base"]) == 2
    assert "RUN_B" in capsys.readouterr().err
    assert cli(["compare", "runs/monday", "runs/monday"]) != 0
    assert "two different runs" in capsys.readouterr().err
