"""The comparison as a whole: same bytes, rounds as units, two runs, what is missing, where the time goes."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from records import JsonObject, RunFolder
from scoring.compare import compare, compare_runs, graded_answers, judged_so_far, score
from tests.builders import Answer, RunBuilder, Speed, boxed, fail

CELL = "single.perf-short"


def perf_run(rounds: int = 1, ratio: float = 0.9, run_noise: float = 0.0, seed: int = 1, **more: object) -> RunBuilder:
    run = RunBuilder(rounds=rounds, seed=seed)
    base = Speed(20, 10, requests=12, tokens=16, run_noise=run_noise, **more)  # type: ignore[arg-type]
    cand = Speed(20 / ratio, 10 / ratio, requests=12, tokens=16, run_noise=run_noise, **more)  # type: ignore[arg-type]
    run.perf(CELL, {"base": base, "cand": cand})
    return run


def row_of(comparison: JsonObject, metric: str, cell: str = CELL) -> JsonObject:
    return next(r for r in comparison["performance"] if (r["cell"], r["metric"]) == (cell, metric))


def test_the_same_captures_give_the_same_bytes_but_for_the_stamp(tmp_path: Path) -> None:
    folder = perf_run(rounds=2).write(tmp_path / "run")
    first, second = compare(folder, created="a"), compare(folder, created="b")
    assert json.dumps(first | {"created": "b"}) == json.dumps(second)
    assert first["created"] == "a"


def test_cells_of_one_scenario_are_called_by_the_names_that_tell_them_apart(tmp_path: Path) -> None:
    run, names = RunBuilder(), ["concurrent_2.perf-short", "concurrent_4.perf-short"]
    for name in names:
        run.perf(name, dict.fromkeys(("base", "cand"), Speed(20, 10, requests=4, tokens=16)))
    for cell, name in zip(run.profile["cells"], names, strict=True):
        cell |= {"scenario": "closed_loop", "name": name}
    rows = compare(run.write(tmp_path / "run"), created="now")["performance"]
    assert {(row["scenario"], row["workload"]) for row in rows} == {
        ("concurrent_2", "perf-short"),
        ("concurrent_4", "perf-short"),
    }


def test_with_several_rounds_the_run_is_the_unit(tmp_path: Path) -> None:
    comparison = compare(perf_run(rounds=5, run_noise=0.02).write(tmp_path / "run"), created="now")
    row = row_of(comparison, "tpot_ms_p50")
    assert row["speed_ratio"]["cand"]["method"] == "welch"
    assert row["speed_ratio"]["cand"]["verdict"] == "slower"
    assert list(row["engines"]["base"]["rounds"]) == ["1", "2", "3", "4", "5"]
    assert row["engines"]["base"]["ci"][0] < row["engines"]["base"]["value"] < row["engines"]["base"]["ci"][1]
    assert not any("ignore the noise" in caveat for caveat in comparison["verdict"]["caveats"])


def test_one_round_gives_a_bootstrap_and_a_caveat_about_the_noise_it_ignores(tmp_path: Path) -> None:
    comparison = compare(perf_run().write(tmp_path / "run"), created="now")
    ratio = row_of(comparison, "output_tok_s")["speed_ratio"]["cand"]
    assert ratio["method"] == "bootstrap within one run"
    assert any("ignore the noise" in caveat for caveat in comparison["verdict"]["caveats"])


@pytest.mark.parametrize("rounds", [1, 2])
def test_fewer_than_three_rounds_have_figures_and_intervals_and_no_verdict(tmp_path: Path, rounds: int) -> None:
    comparison = compare(perf_run(rounds=rounds, ratio=0.5).write(tmp_path / "run"), created="now")
    ratios = [row["speed_ratio"]["cand"] for row in comparison["performance"]]
    assert {ratio["verdict"] for ratio in ratios} == {None}
    deciding = row_of(comparison, "output_tok_s")["speed_ratio"]["cand"]
    assert deciding["ci"][1] < 0.55
    assert (deciding["deciding"], deciding["no_verdict"]) == (True, "fewer than 3 rounds")
    assert deciding["ci_adjusted"] is None and deciding["p_adjusted"] is None
    assert deciding["text"].endswith(", no verdict: fewer than 3 rounds")
    assert any("no verdict on speed" in caveat for caveat in comparison["verdict"]["caveats"])
    assert comparison["verdict"]["families"]["speed"]["judged"] == 0


def test_only_the_figures_that_were_named_beforehand_are_judged(tmp_path: Path) -> None:
    run = perf_run(rounds=3, ratio=0.5, run_noise=0.01)
    comparison = compare(run.write(tmp_path / "run"), created="now")
    judged = {row["metric"] for row in comparison["performance"] if row["speed_ratio"]["cand"]["verdict"]}
    assert judged == {"output_tok_s", "ttft_ms_p50", "tpot_ms_p50"}
    exploratory = row_of(comparison, "e2e_ms_p50")["speed_ratio"]["cand"]
    assert (exploratory["deciding"], exploratory["no_verdict"]) == (False, "exploratory")
    assert exploratory["ci"][1] < 0.6 and not any(word in exploratory["text"] for word in ("slower", "verdict"))
    assert {line["metric"] for line in comparison["verdict"]["speed"]} == judged
    run.profile["verdict"] = {"deciding": ["e2e_ms_p50"]}
    named = compare(run.write(tmp_path / "named"), created="now")
    assert {row["metric"] for row in named["performance"] if row["speed_ratio"]["cand"]["verdict"]} == {"e2e_ms_p50"}
    assert "e2e_ms_p50: 0.49x" in named["verdict"]["speed"][0]["text"]


def test_a_difference_that_one_cell_alone_would_show_is_not_shown_among_many(tmp_path: Path) -> None:
    run, cells = RunBuilder(rounds=3, seed=35), [CELL, *(f"single.perf-{i}" for i in range(7))]
    for cell in cells:
        speeds = {"base": Speed(20, 10, requests=4, tokens=8, run_noise=0.02)}
        speeds["cand"] = Speed(20, 10, requests=4, tokens=8, run_noise=0.02)
        run.perf(cell, speeds)
    comparison = compare(run.write(tmp_path / "run"), created="now")
    ratios = [row["speed_ratio"]["cand"] for row in comparison["performance"]]
    deciding = [ratio for ratio in ratios if ratio["deciding"]]
    assert comparison["verdict"]["families"]["speed"]["judged"] == len(deciding) == 24
    assert any(not ratio["ci"][0] <= 1 <= ratio["ci"][1] for ratio in deciding), "the seed no longer shows the trap"
    assert {ratio["verdict"] for ratio in deciding} == {"inconclusive"}
    assert all(ratio["ci_adjusted"][0] < 1 < ratio["ci_adjusted"][1] for ratio in deciding)


def test_rounds_that_were_looked_at_one_by_one_are_judged_by_the_stricter_bounds(tmp_path: Path) -> None:
    run = perf_run(rounds=4, ratio=0.5, run_noise=0.005)
    folder = run.write(tmp_path / "fixed")
    fixed = compare(folder, created="now")
    run.profile["rounds"], run.manifest["rounds_done"] = "auto", 4
    auto_folder = run.write(tmp_path / "auto")
    auto = compare(auto_folder, created="now")
    assert auto["verdict"]["families"]["speed"]["method"] == "Holm over group-sequential looks"
    for metric in ("output_tok_s", "ttft_ms_p50", "tpot_ms_p50"):
        looked, once = (row_of(c, metric)["speed_ratio"]["cand"] for c in (auto, fixed))
        assert (looked["verdict"], once["verdict"]) == ("slower", "slower")
        low, high = (side["ci_adjusted"][1] - side["ci_adjusted"][0] for side in (once, looked))
        assert low < high
    # The driver stops by the same verdicts.
    assert [ratio["verdict"] for ratio in judged_so_far(auto_folder)] == ["slower"] * 3
    assert not auto["verdict"]["void"]


def test_two_runs_are_judged_by_looks_where_either_was_looked_at_every_round(tmp_path: Path) -> None:
    run = perf_run(rounds=4, ratio=0.5, run_noise=0.005)
    fixed = run.write(tmp_path / "fixed")
    run.profile["rounds"], run.manifest["rounds_done"] = "auto", 4
    auto = run.write(tmp_path / "auto")
    for pair in ((fixed, auto), (auto, fixed)):
        both = compare_runs(*pair, created="now")
        assert both["verdict"]["families"]["speed"]["method"] == "Holm over group-sequential looks"


def test_an_open_figure_says_how_many_rounds_would_decide_it(tmp_path: Path) -> None:
    comparison = compare(perf_run(rounds=3, ratio=0.97, run_noise=0.02).write(tmp_path / "run"), created="now")
    deciding = [
        row["speed_ratio"]["cand"] for row in comparison["performance"] if row["speed_ratio"]["cand"]["deciding"]
    ]
    assert {ratio["verdict"] for ratio in deciding} == {"inconclusive"}
    assert all(ratio["needed_rounds"] is None or ratio["needed_rounds"] > 3 for ratio in deciding)
    assert any(ratio["needed_rounds"] for ratio in deciding)


def test_p99_is_withheld_and_the_report_says_so(tmp_path: Path) -> None:
    comparison = compare(perf_run().write(tmp_path / "run"), created="now")
    assert row_of(comparison, "ttft_ms_p99")["engines"]["base"] == {
        "value": None, "ci": None, "n": 12, "rounds": {"1": None},
    }  # fmt: skip
    told = "Percentiles with fewer than 10 requests beyond them are withheld: p90, p95, p99 of "
    assert any(caveat.startswith(told) for caveat in comparison["verdict"]["caveats"])


def test_the_three_parts_of_the_time_add_up(tmp_path: Path) -> None:
    run = RunBuilder()
    for timings, cell in ((False, "single.perf-short"), (False, "concurrent_4.perf-short")):
        users = 4 if cell.startswith("c") else 1
        speed = Speed(20.0 * users, 10, users=users, requests=16, tokens=16, timings=timings)
        run.perf(cell, {"base": speed, "cand": speed})
    rows = compare(run.write(tmp_path / "run"), created="now")["breakdown"]
    for row in rows:
        assert row["queue_ms"] + row["prefill_ms"] + row["decode_ms"] == pytest.approx(row["e2e_ms"])
    loaded = next(r for r in rows if r["cell"] == "concurrent_4.perf-short")
    assert loaded["prefill_ms"] == pytest.approx(20, rel=0.02)
    assert loaded["queue_ms"] == pytest.approx(60, rel=0.02)
    assert "concurrency 1" in loaded["source"]


def test_server_timings_split_the_time_where_the_engine_sends_them(tmp_path: Path) -> None:
    row = compare(perf_run().write(tmp_path / "run"), created="now")["breakdown"][0]
    assert row["prefill_ms"] == pytest.approx(18, rel=0.02)
    assert row["queue_ms"] == pytest.approx(2, rel=0.1)
    assert row["source"].startswith("server timings")


def quality_run(base: list[Answer], cand: list[Answer], rounds: int = 1) -> RunBuilder:
    run = RunBuilder(rounds=rounds)
    run.answers("single.gsm8k", [str(i) for i in range(len(base))], {"base": base, "cand": cand})
    return run


def test_a_missing_row_and_an_error_are_wrong_and_counted_apart(tmp_path: Path) -> None:
    run = quality_run([boxed(i) for i in range(4)], [boxed(0), Answer("", error="aborted"), boxed(2), boxed(3)])
    run.records["cand", 1, "single.gsm8k"].pop()
    told = compare(run.write(tmp_path / "run"), created="now")["quality"][0]["engines"]["cand"]
    assert (told["correct"], told["n"], told["errors"], told["missing"]) == (2, 4, 1, 1)
    assert told["by_method"] == {"boxed": 2}


def test_flips_carry_both_answers_and_their_completions(tmp_path: Path) -> None:
    run = quality_run([boxed(0), boxed(1)], [boxed(0), boxed(9)])
    comparison = compare(run.write(tmp_path / "run"), created="now")
    assert comparison["quality"][0]["paired"]["cand"]["flips"] == [["gsm8k-0002", 0, "lost"]]
    problem = comparison["problems"][1]
    assert problem["flipped"] is True
    assert problem["engines"]["cand"]["answer"] == "9"
    assert "boxed{1}" in problem["engines"]["base"]["completion"]
    assert problem["prompt"].startswith("Problem 2")


def test_a_completion_is_carried_up_to_eight_kilobytes(tmp_path: Path) -> None:
    long = Answer("so " * 10_000 + "\\boxed{0}")
    run = quality_run([long], [long])
    told = compare(run.write(tmp_path / "run"), created="now")["problems"][0]["engines"]["base"]
    assert len(told["completion"]) == 8192
    assert told["completion_chars"] == len(long.text)


def test_repeats_give_the_noise_floor_beside_engine_against_engine(tmp_path: Path) -> None:
    run = quality_run([boxed(i) for i in range(4)], [boxed(i) for i in range(4)], rounds=2)
    last = run.records["cand", 2, "single.gsm8k"][-1]
    last.text = last.text.replace("boxed{3}", "boxed{5}")
    comparison = compare(run.write(tmp_path / "run"), created="now")
    row = comparison["quality"][0]
    assert row["self_agreement"]["cand"] == {
        "pairs": 1, "n": 4, "flips": 1.0, "flip_share": 0.25, "answers_changed": 0.25,
    }  # fmt: skip
    assert row["self_agreement"]["base"]["flips"] == 0
    kinds = {(r["kind"], r["a"], r["b"]): r["exact_match"] for r in comparison["divergence"]}
    assert kinds["A/A", "base", "base"] == 1.0
    assert kinds["A/A", "cand", "cand"] == 0.75
    assert ("A/B", "base", "cand") in kinds


def test_samples_are_clustered_by_problem(tmp_path: Path) -> None:
    run = quality_run([boxed(i) for i in range(4)], [boxed(i) for i in range(4)])
    for engine in run.engines:
        records = run.records[engine, 1, "single.gsm8k"]
        for record in list(records):
            again = type(record)(**record.to_dict() | {"sample": 1, "id": record.id + "-1"})
            if record.prompt_id.endswith("1"):
                again.text = "\\boxed{77}"
            records.append(again)
        run.scenarios[engine, 1, "single.gsm8k"]["asked"]["samples"] = 2
    row = compare(run.write(tmp_path / "run"), created="now")["quality"][0]
    told = row["engines"]["cand"]
    assert (told["correct"], told["n"], told["problems"]) == (7, 8, 4)
    assert told["standard_error"] == pytest.approx(0.125)
    assert told["pass_at_k"] == {"1": pytest.approx(7 / 8), "2": 1.0}
    paired = row["paired"]["cand"]
    assert paired["mcnemar_p"] is None
    assert paired["difference"] == 0
    # Four problems that agree are no proof of parity, however often each is asked.
    assert paired["verdict"] == "inconclusive"
    assert paired["ci"][0] < -0.4 and paired["ci"][1] > 0.4
    assert paired["needed_n"] > 4


def test_failed_requests_give_exit_code_one_when_the_limit_allows_them(tmp_path: Path) -> None:
    run = perf_run()
    run.profile["error_limit"] = 0.5
    fail(run.every_record("cand")[-1])
    verdict = compare(run.write(tmp_path / "run"), created="now")["verdict"]
    assert (verdict["void"], verdict["exit_code"]) == (False, 1)


def test_a_failed_request_keeps_kind_and_message_of_its_error(tmp_path: Path) -> None:
    run = perf_run()
    broken = run.every_record("cand")[-1]
    fail(broken)
    broken.error = {"kind": "http_status", "message": "503 " + "x" * 10_000}
    rows = compare(run.write(tmp_path / "run"), created="now")["requests"]
    [row] = [row for row in rows if row["status"] == "error"]
    assert row["error"] == {"kind": "http_status", "message": "503 " + "x" * 496}
    assert {row["error"] for row in rows if row["status"] == "ok"} == {None}


def test_an_engine_without_captures_is_void_and_still_compared(tmp_path: Path) -> None:
    folder = perf_run().write(tmp_path / "run")
    shutil.rmtree(folder.path / "cand")
    comparison = compare(folder, created="now")
    assert comparison["verdict"]["void"] is True
    assert any("no capture of this cell" in reason for reason in comparison["verdict"]["reasons"])
    assert row_of(comparison, "ttft_ms_p50")["engines"]["base"]["value"] is not None


def test_nothing_captured_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"run\.json: no such file"):
        compare(RunFolder(tmp_path), created="now")


def test_score_grades_again_without_measuring(tmp_path: Path) -> None:
    folder = quality_run([boxed(0), boxed(1)], [boxed(0), boxed(9)]).write(tmp_path / "run")
    scores = score(folder)
    assert scores["quality"] == compare(folder, created="now")["quality"]
    assert scores["grader_version"]


def two_runs(tmp_path: Path, doctor: dict[str, object] | None = None, **profile: object) -> JsonObject:
    a, b = perf_run(), perf_run(seed=1)
    b.profile |= profile
    b.manifest["host"] |= doctor or {}
    return compare_runs(a.write(tmp_path / "monday"), b.write(tmp_path / "tuesday"), created="now", engine_b="base")


def statuses(comparison: JsonObject) -> dict[str, str]:
    return {r["check"]: r["status"] for r in comparison["audit"] if r["check"].startswith("runs: ")}


def test_two_runs_are_compared_under_labels_of_their_own(tmp_path: Path) -> None:
    comparison = two_runs(tmp_path)
    assert list(comparison["engines"]) == ["base@monday", "cand@monday", "base@tuesday"]
    assert comparison["baseline"] == "base@monday"
    assert comparison["run_id"] == "monday / tuesday"
    row = row_of(comparison, "output_tok_s")
    assert row["speed_ratio"]["base@tuesday"]["value"] == pytest.approx(1.0)
    assert set(statuses(comparison).values()) == {"pass"}
    assert comparison["verdict"]["void"] is False


@pytest.mark.parametrize(
    ("check", "doctor", "profile"),
    [
        ("runs: GPU", {"gpu": [{"name": "Another"}]}, {}),
        ("runs: host", {"cpu": "another"}, {}),
        ("runs: sampling", {}, {"sampling": {"temperature": 0.7, "top_p": 1.0}}),
        ("runs: context", {}, {"max_seq_len": 4096}),
        ("runs: thinking", {}, {"thinking": True}),
    ],
)
def test_runs_whose_manifests_disagree_are_void(
    tmp_path: Path, check: str, doctor: dict[str, object], profile: dict[str, object]
) -> None:
    comparison = two_runs(tmp_path, doctor, **profile)
    assert statuses(comparison)[check] == "fail"
    assert comparison["verdict"]["void"] is True


def test_runs_with_other_prompts_or_weights_or_load_are_void(tmp_path: Path) -> None:
    a, b = perf_run(), perf_run()
    b.workloads["perf-short"] = b.workloads["perf-short"][::-1]
    b.states["base", 1]["weights"]["source_sha256"] = "9" * 64
    b.profile["cells"][0]["max_tokens"] = 99
    comparison = compare_runs(a.write(tmp_path / "monday"), b.write(tmp_path / "tuesday"), created="now")
    found = statuses(comparison)
    assert (found["runs: prompts"], found["runs: model"], found["runs: load"]) == ("fail", "fail", "fail")


def test_a_run_against_itself_and_an_unknown_engine_are_refused(tmp_path: Path) -> None:
    folder = perf_run().write(tmp_path / "monday")
    other = perf_run().write(tmp_path / "tuesday")
    with pytest.raises(ValueError, match="two different runs"):
        compare_runs(folder, folder, created="now")
    with pytest.raises(ValueError, match="has no engine 'x'"):
        compare_runs(folder, other, created="now", engine_a="x")


def test_prefill_told_by_one_server_is_not_held_against_a_ttft(tmp_path: Path) -> None:
    run = RunBuilder()
    run.perf("single.perf-short", {"base": Speed(20, 10), "cand": Speed(20, 10, timings=False)})
    rows = compare(run.write(tmp_path / "run"), created="now")["performance"]
    row = next(row for row in rows if row["metric"] == "prefill_tok_s")
    assert row["engines"]["base"]["value"] and row["engines"]["cand"]["value"]
    told = row["speed_ratio"]["cand"]
    assert told["value"] is None and told["verdict"] is None
    assert told["text"] == "measured in two ways: from the server's own timings in the baseline, from TTFT here"


def test_no_answer_is_wrong_for_not_being_asked_in_time(tmp_path: Path) -> None:
    """By duration the slower engine comes less far down the list."""
    run = quality_run([boxed(i) for i in range(8)], [boxed(i) for i in range(8)])
    run.profile["cells"][0]["duration_s"] = 1.0
    for engine in run.engines:
        run.scenarios[engine, 1, "single.gsm8k"]["asked"]["duration_s"] = 1.0
    del run.records["cand", 1, "single.gsm8k"][5:]
    row = compare(run.write(tmp_path / "run"), created="now")["quality"][0]
    assert [(row["engines"][e]["correct"], row["engines"][e]["n"]) for e in run.engines] == [(5, 5), (5, 5)]
    assert row["paired"]["cand"]["difference"] == 0


def test_the_weights_of_an_engine_that_is_not_compared_void_nothing(tmp_path: Path) -> None:
    a, b = perf_run(), perf_run()
    a.states["cand", 1]["weights"] |= {"sha256": "9" * 64, "source_sha256": "9" * 64}
    monday, tuesday = a.write(tmp_path / "monday"), b.write(tmp_path / "tuesday")
    alone = compare_runs(monday, tuesday, created="now", engine_a="base", engine_b="base")
    assert statuses(alone)["runs: model"] == "pass"
    assert statuses(compare_runs(monday, tuesday, created="now"))["runs: model"] == "fail"


def test_runs_at_another_rate_and_of_other_prompts_from_a_file_are_void(tmp_path: Path) -> None:
    a, b = perf_run(), perf_run()
    for run, rate in ((a, 2), (b, 4)):
        run.profile["cells"][0] |= {"name": CELL, "workload": "files/perf-short.jsonl", "options": {"rate": rate}}
    b.workloads["perf-short"] = b.workloads["perf-short"][::-1]
    found = statuses(compare_runs(a.write(tmp_path / "monday"), b.write(tmp_path / "tuesday"), created="now"))
    assert (found["runs: prompts"], found["runs: load"]) == ("fail", "fail")


def test_the_rate_of_an_open_loop_has_no_interval_from_how_long_requests_took(tmp_path: Path) -> None:
    run = perf_run()
    for engine in run.engines:
        run.scenarios[engine, 1, CELL]["asked"] |= {"shape": "open", "rate": 2.0, "users": 64}
    comparison = compare(run.write(tmp_path / "run"), created="now")
    told = row_of(comparison, "requests_s")
    assert told["engines"]["base"]["value"] is not None and told["engines"]["base"]["ci"] is None
    assert (told["speed_ratio"]["cand"]["verdict"], told["speed_ratio"]["cand"]["method"]) == (None, "no interval")
    assert row_of(comparison, "ttft_ms_p50")["engines"]["base"]["ci"] is not None


def test_the_cross_check_grades_the_records_that_scoring_counts(tmp_path: Path) -> None:
    run = quality_run([boxed(0), boxed(1)], [boxed(0), boxed(1)])
    records = run.records["cand", 1, "single.gsm8k"]
    replaced = dataclasses.replace(records[0], id="earlier", text=boxed(99).text)
    run.records["cand", 1, "single.gsm8k"] = [replaced, *records]
    answers = [(where, gold, outcome.answer) for where, gold, outcome in graded_answers(run.write(tmp_path / "run"))]
    assert len(answers) == 4
    assert all(gold == answer for _, gold, answer in answers)


def void_alone_is_void_together(tmp_path: Path, b: RunBuilder, check: str) -> JsonObject:
    """The failed row of two runs, of which the second by itself is void for the same reason."""
    monday, tuesday = perf_run().write(tmp_path / "monday"), b.write(tmp_path / "tuesday")
    alone = compare(tuesday, created="now")
    assert alone["verdict"]["void"] is True
    together = compare_runs(monday, tuesday, created="now")
    assert together["verdict"]["void"] is True
    own = {(row["check"], row["engine"], row["cell"]) for row in alone["audit"] if row["status"] == "fail"}
    joined = {
        (row["check"], row["engine"].partition("@")[0], row["cell"])
        for row in together["audit"]
        if row["status"] == "fail" and row["engine"].endswith("@tuesday")
    }
    assert own <= joined, "every failed check of one run fails in two"
    return next(r for r in together["audit"] if (r["check"], r["status"]) == (check, "fail") and "@tue" in r["engine"])


def test_an_engine_that_died_and_was_started_again_voids_two_runs_as_it_voids_one(tmp_path: Path) -> None:
    b = perf_run()
    folder = b.write(tmp_path / "tuesday")
    earlier = dict(b.states["cand", 1]) | {"stop_reason": "died", "exit_code": -11}
    (folder.round("cand", 1).path / "engine.partial-1.json").write_text(json.dumps(earlier))
    monday = perf_run().write(tmp_path / "monday")
    for comparison in (compare(folder, created="now"), compare_runs(monday, folder, created="now")):
        row = next(r for r in comparison["audit"] if r["check"] == "engine alive" and r["engine"].startswith("cand"))
        if "@monday" not in row["engine"]:
            assert row["status"] == "fail"
        assert comparison["verdict"]["void"] is True


def test_a_missing_round_voids_two_runs_as_it_voids_one(tmp_path: Path) -> None:
    b = perf_run()
    b.profile["rounds"] = 2
    row = void_alone_is_void_together(tmp_path, b, "round complete")
    assert "round 2 of 2" in row["evidence"]


def test_each_run_has_its_own_limit_of_errors(tmp_path: Path) -> None:
    a, b = perf_run(), perf_run()
    a.profile["error_limit"] = 0.5
    fail(b.records["cand", 1, CELL][-1], "busy")
    void_alone_is_void_together(tmp_path / "strict", b, "errors under the limit")
    monday, tuesday = a.write(tmp_path / "monday"), b.write(tmp_path / "tuesday")
    assert compare_runs(monday, tuesday, created="now")["verdict"]["void"] is True
    b.profile["error_limit"] = 0.5
    tolerant = compare_runs(perf_run().write(tmp_path / "m2"), b.write(tmp_path / "t2"), created="now")
    rows = [r for r in tolerant["audit"] if r["check"] == "errors under the limit"]
    assert {row["status"] for row in rows} <= {"pass", "warn"}


def test_a_cell_that_only_one_run_has_can_void_both(tmp_path: Path) -> None:
    b = perf_run()
    b.perf("single.perf-medium", {"base": Speed(20, 10), "cand": Speed(20, 10)})
    b.scenarios["cand", 1, "single.perf-medium"]["complete"] = False
    void_alone_is_void_together(tmp_path, b, "round complete")


def test_other_weights_than_the_own_baseline_void_two_runs(tmp_path: Path) -> None:
    b = perf_run()
    b.states["cand", 1]["weights"] |= {"sha256": "9" * 64, "source_sha256": "9" * 64}
    void_alone_is_void_together(tmp_path, b, "same weights")


@pytest.mark.parametrize(
    ("section", "value", "check"),
    [
        ("readback", {"build": "b1-other"}, "same model read back"),
        ("readback", {"chat_template_sha256": "9" * 64}, "same model read back"),
        ("weights", {"sha256": "9" * 64, "source_sha256": "9" * 64}, "same weights"),
    ],
)
def test_a_process_before_an_interruption_counts_in_every_check_of_identity(
    tmp_path: Path, section: str, value: JsonObject, check: str
) -> None:
    run = perf_run()
    folder = run.write(tmp_path / "run")
    state = run.states["cand", 1]
    earlier = state | {section: state[section] | value, "stop_reason": "the run was stopped"}
    kept = folder.round("cand", 1).path / "engine.partial-1.json"
    for refused, status in ((None, "fail"), ("another build", "pass")):
        kept.write_text(json.dumps(earlier | {"refused": refused}))
        rows = compare(folder, created="now")["audit"]
        assert [r["status"] for r in rows if (r["check"], r["engine"]) == (check, "cand")] == [status]
