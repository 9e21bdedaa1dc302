import json
import random
import re
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from driver.errors import BenchError, ExitCode
from driver.profile.read import Profile, parse_profile
from nightly.gate_rules import Choice, parse_choice
from nightly.guard import only_one
from nightly.history.store import History, HistoryError
from nightly.measurement import Measured
from nightly.night import NightlyOptions, nightly
from nightly.report import junit, markdown, terminal
from nightly.result import Finding, NightResult
from records import read_json
from tests.nightly.nightly_builders import HOST, Night

Engines = tuple[str, ...]


def profile(engines: Engines = ("llama",), **changes: Any) -> Profile:
    values = {
        "name": "night",
        "baseline": engines[0],
        "rounds": 5,
        "max_seq_len": 1024,
        "engines": [{"name": name, "kind": "remote", "url": "http://127.0.0.1:9"} for name in engines],
        "cells": [
            {"scenario": "single", "workload": "perf-short", "requests": 4, "max_tokens": 16, "fixed_length": True}
        ],
    }
    return parse_profile(values | changes, "test")


class Host:
    """Stands in for the runner: writes what it is told to have measured, and remembers what it was asked."""

    def __init__(self, tmp_path: Path, **night: Any) -> None:
        self.out = tmp_path / "out"
        self.options = NightlyOptions(self.out / "history.db", self.out, Choice("last-good"), 0.03)
        self.night = night
        self.asked: list[tuple[str, Engines, Engines]] = []
        self.day = 0
        self.rng = random.Random(3)
        self.on_measure: Callable[[str], None] = lambda run_id: None
        self.second: dict[str, Any] | None = None

    def measure(self, of: Profile, run_id: str) -> Measured:
        engines = tuple(engine.name for engine in of.engines)
        cells = tuple(cell.label for cell in of.cells)
        self.asked.append((run_id, engines, cells))
        self.on_measure(run_id)
        values = self.night if self.second is None or not run_id.endswith("-confirm") else self.second
        wanted = {"engines": engines, "cells": cells} | values
        night = Night(run_id, f"2026-01-{self.day:02}T02:00:00Z", **wanted)
        folder = night.write(self.out, self.rng)
        return Measured(folder, read_json(folder.comparison("1", "json")), all_ok=True)

    def run(self, of: Profile | None = None, **night: Any) -> NightResult:
        """One night, a day after the last; its result also where it raises."""
        self.day += 1
        self.night = night
        self.asked = []
        reported: list[NightResult] = []
        now = f"2026-01-{self.day:02}T02:00:00Z"
        try:
            nightly(of or profile(), self.options, self.measure, reported.append, now=now)
        finally:
            self.last = reported[0] if reported else None
        assert len(reported) == 1
        return reported[0]

    def history(self) -> History:
        return History(self.options.history)


def test_the_first_night_has_no_baseline_and_the_second_has_the_first(tmp_path: Path) -> None:
    host = Host(tmp_path)
    first = host.run()
    assert (first.exit_code, {f.verdict for f in first.findings}) == (0, {"not judged"})
    assert "begins its series" in first.findings[0].evidence
    second = host.run()
    assert (second.exit_code, {f.verdict for f in second.findings}) == (0, {"ok"})
    assert second.findings[0].baseline == first.run_id


def test_a_slowdown_is_measured_again_and_then_reported(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.run()
    result = host.run(slower={"llama": 0.10})
    assert result.exit_code == ExitCode.REGRESSION
    assert {f.verdict for f in result.findings} == {"regression"}
    assert [run_id for run_id, _, _ in host.asked] == [result.run_id, f"{result.run_id}-confirm"]
    assert all(f.second is not None for f in result.findings)
    with host.history() as history:
        assert {g.verdict for g in history.gates(result.run_id)} == {"regression"}
        assert history.get(f"{result.run_id}-confirm").confirms == result.run_id


def test_a_slowdown_that_the_second_measurement_does_not_show_is_not_reported(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.run()
    host.second = {}
    result = host.run(slower={"llama": 0.10})
    assert result.exit_code == ExitCode.DONE
    assert {f.verdict for f in result.findings} == {"unconfirmed"}
    assert "did not when measured again" in result.headline


def test_a_night_that_only_its_second_measurement_cleared_is_no_baseline(tmp_path: Path) -> None:
    host = Host(tmp_path)
    good = host.run()
    host.second = {}
    assert host.run(slower={"llama": 0.10}).by_verdict("unconfirmed")
    assert host.run().findings[0].baseline == good.run_id


def test_only_what_looked_slower_is_measured_again(tmp_path: Path) -> None:
    host = Host(tmp_path)
    two = profile(("llama", "xserv"))
    host.run(two)
    result = host.run(two, slower={"xserv": 0.10})
    assert host.asked[1][1] == ("xserv",)
    assert {f.verdict for f in result.findings if f.engine == "llama"} == {"ok"}
    assert {f.verdict for f in result.findings if f.engine == "xserv"} == {"regression"}


def test_without_confirmation_a_slowdown_is_a_suspicion_that_fails_the_night(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.run()
    host.options = replace(host.options, confirm=False)
    result = host.run(slower={"llama": 0.10})
    assert (result.exit_code, len(host.asked)) == (1, 1)
    assert "SUSPECTED" in result.headline


def test_a_failed_night_is_no_baseline_until_it_is_pinned(tmp_path: Path) -> None:
    host = Host(tmp_path)
    good = host.run()
    slow = host.run(slower={"llama": 0.10})
    again = host.run(slower={"llama": 0.10})
    assert again.exit_code == 1
    assert again.findings[0].baseline == good.run_id
    with host.history() as history:
        history.pin(slow.run_id, "2026-01-03T12:00:00Z")
    accepted = host.run(slower={"llama": 0.10})
    assert accepted.exit_code == 0
    assert accepted.findings[0].baseline == slow.run_id


def test_pinned_compares_with_the_pin_however_many_nights_have_passed(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.options = replace(host.options, choice=Choice("pinned"))
    first = host.run(noise=0.005)
    assert "pin" in first.findings[0].evidence
    with host.history() as history:
        history.pin(first.run_id, "2026-01-01T12:00:00Z")
    verdicts = [host.run(noise=0.005, slower={"llama": slower}).exit_code for slower in (0.02, 0.04, 0.06, 0.08)]
    assert verdicts[0] == 0 and verdicts[-1] == 1, "slow drift is seen against a pin"


def test_a_window_takes_the_newest_good_nights(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.options = replace(host.options, choice=Choice("window", 5))
    runs = [host.run().run_id for _ in range(7)]
    result = host.run()
    assert result.findings[0].baseline == f"{runs[-1]} and 4 before"
    assert "5 nights" in result.findings[0].evidence


def test_answers_name_the_one_night_that_they_are_held_against(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.options = replace(host.options, choice=Choice("window", 5))
    marks = {"llama": [True] * 48 + [False] * 2}
    runs = [host.run(correct=marks).run_id for _ in range(3)]
    told = {f.metric: f.baseline for f in host.run(correct=marks).findings}
    assert told["accuracy"] == runs[-1]
    assert told["output_tok_s"] == f"{runs[-1]} and 2 before"


def test_one_engine_is_held_against_stored_figures_without_running_the_other(tmp_path: Path) -> None:
    host = Host(tmp_path)
    two = profile(("llama", "xserv"))
    both = host.run(two)
    host.options = replace(host.options, engines=("xserv",))
    result = host.run(two)
    assert host.asked[0][1] == ("xserv",)
    assert {(f.engine, f.baseline, f.verdict) for f in result.findings} == {("xserv", both.run_id, "ok")}


@pytest.mark.parametrize(
    ("host_after", "says"),
    [
        (HOST | {"kernel": "6.2.0-1"}, "kernel 6.1.0-1 -> 6.2.0-1"),
        (HOST | {"gpu": [HOST["gpu"][0] | {"driver": "575.2"}]}, "gpu0.driver 570.10 -> 575.2"),
        (HOST | {"gpu": [HOST["gpu"][0] | {"name": "H200"}]}, "gpu0.name RTX 5090 -> H200"),
        (HOST | {"gpu": [HOST["gpu"][0] | {"max_sm_mhz": 1900}]}, "gpu0.max_sm_mhz 2407 -> 1900"),
        (HOST | {"gpu": None}, "gpus 1 -> unknown"),
    ],
)
def test_a_changed_host_breaks_the_series_and_is_never_called_a_regression(
    tmp_path: Path, host_after: dict[str, Any], says: str
) -> None:
    host = Host(tmp_path)
    host.run()
    result = host.run(slower={"llama": 0.30}, host=host_after)
    assert (result.exit_code, {f.verdict for f in result.findings}) == (0, {"not judged"})
    assert len(host.asked) == 1
    assert says in " ".join(result.breaks)
    assert says in unescape(markdown(result)) and says in "\n".join(terminal(result))
    assert host.run(slower={"llama": 0.30}, host=host_after).by_verdict("ok"), "the new series goes on from there"


def test_an_engine_upgrade_under_one_profile_is_compared_and_both_builds_are_named(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.run(build={"llama": "b9371"})
    result = host.run(build={"llama": "b9500"}, slower={"llama": 0.10})
    assert result.exit_code == 1
    assert "llama: b9371 -> b9500" in result.builds[0]


def test_two_builds_run_tonight_are_compared_with_each_other(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.options = replace(host.options, choice=Choice("run"))
    two = profile(("old", "new"))
    build = {"old": "b9371", "new": "b9500"}
    # The whole machine is slow tonight, which must not matter; then only the new build is.
    equal = host.run(two, build=build, slower={"old": 0.2, "new": 0.2})
    assert (equal.exit_code, {f.engine for f in equal.findings}) == (0, {"new"})
    assert equal.builds == ["old is b9371, new is b9500"]
    slower = host.run(two, build=build, slower={"new": 0.10})
    assert slower.exit_code == 1
    assert host.asked[1][1] == ("old", "new"), "the second measurement needs both"
    assert {f.baseline for f in slower.findings} == {"old tonight"}


def test_worse_answers_fail_the_night_although_it_is_as_fast(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.run(correct={"llama": [True] * 48 + [False] * 2})
    result = host.run(correct={"llama": [True] * 30 + [False] * 20})
    assert result.exit_code == 1
    assert [(f.cell, f.metric, f.verdict) for f in result.by_verdict("regression")] == [
        ("single.arithmetic", "accuracy", "regression")
    ]


def test_a_loss_within_the_margin_that_a_profile_without_one_has_is_no_regression(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.run(correct={"llama": [True] * 400})
    # 1.5 points, which McNemar's test alone would call a difference: 6 lost, none won.
    result = host.run(correct={"llama": [True] * 394 + [False] * 6})
    (answers,) = [finding for finding in result.findings if finding.metric == "accuracy"]
    assert (result.exit_code, answers.verdict, answers.limit) == (0, "ok", -0.02)


def test_a_void_night_is_kept_and_judges_nothing(tmp_path: Path) -> None:
    host = Host(tmp_path)
    good = host.run()
    result = host.run(void=True, slower={"llama": 0.5})
    assert (result.exit_code, result.findings, len(host.asked)) == (3, [], 1)
    assert "cache hits" in result.headline
    assert host.run().findings[0].baseline == good.run_id


def test_a_void_second_measurement_leaves_a_suspicion(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.run()
    host.second = {"void": True}
    with pytest.raises(BenchError, match="second measurement is void") as error:
        host.run(slower={"llama": 0.10})
    assert error.value.exit_code == ExitCode.VOID
    assert host.last is not None and host.last.by_verdict("suspected")
    with host.history() as history:
        assert {g.verdict for g in history.gates(host.last.run_id)} == {"suspected"}
        assert history.get(host.last.run_id).exit_code == 3
    assert host.run().exit_code == 0


def test_an_engine_that_fails_is_a_partial_night_with_its_reason(tmp_path: Path) -> None:
    host = Host(tmp_path)

    def die(run_id: str) -> None:
        raise BenchError("llama: out of memory")

    host.on_measure = die
    with pytest.raises(BenchError, match="out of memory"):
        host.run()
    assert host.last is not None and (host.last.exit_code, host.last.status) == (4, "partial")
    with host.history() as history:
        run = history.runs()[0]
        assert (run.status, run.note, run.exit_code) == ("partial", "llama: out of memory", 4)


def test_the_time_limit_ends_the_night_and_what_was_kept_stays(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.run()
    host.options = replace(host.options, time_limit_s=0.2)
    host.on_measure = lambda run_id: time.sleep(20)
    with pytest.raises(BenchError, match="time limit") as error:
        host.run()
    assert error.value.exit_code == ExitCode.FAILURE
    with host.history() as history:
        assert [run.status for run in history.runs()] == ["complete", "partial"]
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_a_time_limit_that_passes_before_the_confirmation_leaves_a_suspicion(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.run()
    host.options = replace(host.options, time_limit_s=2)
    host.on_measure = lambda run_id: time.sleep(20 if run_id.endswith("-confirm") else 0)
    with pytest.raises(BenchError, match="time limit"):
        host.run(slower={"llama": 0.10})
    assert host.last is not None and host.last.by_verdict("suspected")


def test_a_killed_night_is_seen_by_the_next_one(tmp_path: Path) -> None:
    host = Host(tmp_path)
    with host.history() as history:
        history.begin("night-nightly-0", "2025-12-31T02:00:00Z", "night", "nightly")
    host.run()
    with host.history() as history:
        assert next((r.status, r.note) for r in history.runs()) == ("partial", "killed or crashed before its end")


def test_a_second_nightly_at_once_gets_one_line_and_exit_code_4(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.out.mkdir()
    with only_one(host.out / "history.db.lock"), pytest.raises(BenchError, match="another nightly") as error:
        nightly(profile(), host.options, host.measure, lambda result: None)
    assert error.value.exit_code == ExitCode.FAILURE and "\n" not in error.value.message
    assert host.asked == []


def test_retention_deletes_old_folders_but_no_pin_and_no_figures(tmp_path: Path) -> None:
    host = Host(tmp_path)
    runs = [host.run().run_id for _ in range(3)]
    with host.history() as history:
        history.pin(runs[0], "2026-01-01T12:00:00Z")
    (host.out / "mine").mkdir()
    host.options = replace(host.options, keep=2)
    last = host.run().run_id
    assert sorted(p.name for p in host.out.iterdir() if p.is_dir()) == sorted(["mine", runs[0], runs[2], last])
    with host.history() as history:
        assert [run.run_id for run in history.runs()] == [*runs, last]


def test_the_last_change_of_level_is_shown_with_the_night(tmp_path: Path) -> None:
    host = Host(tmp_path)
    for _ in range(10):
        host.run()
    host.options = replace(host.options, threshold=0.5)
    for _ in range(7):
        result = host.run(slower={"llama": 0.15})
    assert any("output_tok_s: since" in note for note in result.trends)


@pytest.mark.parametrize("text", ["window:1", "window:x", "best", "", "window:-3", "pinned "])
def test_a_baseline_that_is_none_says_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="expected pinned, last-good, window:N"):
        parse_choice(text)


def test_thirty_nights_fail_exactly_where_the_truth_says(tmp_path: Path) -> None:
    host = Host(tmp_path)
    slow, new_driver = {"slower": {"llama": 0.10}}, {"host": HOST | {"gpu": [HOST["gpu"][0] | {"driver": "575.2"}]}}
    slower_driver = new_driver | {"slower": {"llama": 0.20}}
    story: dict[int, tuple[dict[str, Any], int]] = {8: ({"void": True}, 3), 12: (slow, 1), 13: (slow, 1)}
    story |= dict.fromkeys(range(18, 26), (slower_driver, 0))
    story |= {night: (new_driver | {"slower": {"llama": 0.28}}, 1) for night in range(26, 31)}
    truth = [story.get(night, ({}, 0)) for night in range(1, 31)]
    found = [host.run(**changes).exit_code for changes, _ in truth]
    assert found == [expected for _, expected in truth]
    with host.history() as history:
        assert len(history.runs(where="kind = 'nightly'")) == 30


def hostile() -> NightResult:
    name = "<script>x</script>](javascript:1) | \x1b[31m\u202e`a` https://evil.example @everyone www.evil.example"
    finding = Finding(name, name, name, "regression", name, 0.9, (0.8, 0.95), 0.97, 10.0, 9.0, 9.0, name)
    ok = Finding("llama", "c", "m", "ok", "b", 1.0, (0.9, 1.1), 0.97, 1.0, 1.0, None, "")
    skipped = Finding("llama", "c", "m2", "not judged", None, None, None, None, None, 1.0, None, "none")
    return NightResult("r", name, "last-good", "complete", 1, [finding, ok, skipped], breaks=[name], void=[])


def test_names_are_inert_in_every_report() -> None:
    text = markdown(hostile())
    assert "<script" not in text and "\x1b" not in text and "\u202e" not in text
    # GitHub would make links and mentions of these.
    assert not re.search(r"(?<!\\)\]\(|https?://|@\w|www\.|(?<!\\)`", text)
    assert len({line.count(" |") for line in text.splitlines() if line.startswith("| ")}) == 1
    assert "\x1b" not in "\n".join(terminal(hostile()))
    suite = Xml.fromstring(junit(hostile()))
    assert suite.get("failures") == "1" and suite.get("skipped") == "1" and suite.get("tests") == "5"
    failing = [case for case in suite.iter("testcase") if case.find("failure") is not None]
    assert "<script>" in str(failing[0].get("name"))


def test_a_good_night_says_how_much_of_it_was_not_judged() -> None:
    night = hostile()
    night.findings, night.exit_code = night.findings[1:], 0
    assert night.headline == "OK: no regression in 1 figure; 1 not judged"
    night.findings = night.findings[:1]
    assert night.headline == "OK: no regression in 1 figure"


def test_the_result_is_json() -> None:
    assert json.loads(json.dumps(hostile().to_json()))["headline"].startswith("REGRESSION")


def test_a_history_that_cannot_be_opened_is_reported_before_anything_is_measured(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.out.mkdir()
    host.options.history.write_text("not a database" * 100)
    with pytest.raises(HistoryError, match="not a database"):
        host.run()
    assert host.asked == [] and host.last is not None and host.last.exit_code == 4
