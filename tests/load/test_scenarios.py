"""What each shape of load does: counts, concurrency, phases, schedules; all read off the records."""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from records import Record
from tests.load.load import ROOT, Outcome, finish, prompts_file, run, start
from tests.load.scripted_server import Action, Asked, ScriptedServer, chat, paced


def slow(asked: Asked) -> list[Action]:
    return list(paced(["a"] * 6, first_s=0.03, gap_s=0.02))


def most_in_flight(records: list[Record]) -> int:
    changes = [(r.sent_ns, 1) for r in records if r.sent_ns] + [(r.end_ns, -1) for r in records]
    return max(itertools.accumulate(change for _, change in sorted(changes)))


def test_the_command_of_the_docs_asks_exactly_what_it_says(tmp_path: Path) -> None:
    with ScriptedServer(slow) as server:
        options = ["--requests", "16", "--prompts", "arithmetic", "--max-tokens", "64", "--warmup", "5"]
        outcome = run("concurrent_4", server.url, tmp_path / "out", *options)
    assert outcome.code == 0
    assert (len(server.asked), server.most_in_flight) == (21, 4)
    assert [r.phase for r in outcome.records] == ["warmup"] * 5 + ["measure"] * 13 + ["drain"] * 3
    warm, measured = outcome.records[:5], outcome.measured
    assert max(r.end_ns for r in warm) <= min(r.sent_ns or 0 for r in measured)
    assert not {r.prompt_id for r in warm} & {r.prompt_id for r in measured}
    assert most_in_flight(measured) == 4
    assert {r.cell for r in measured} == {"concurrent_4.arithmetic"}
    scenario = outcome.scenario
    assert (scenario["complete"], scenario["incomplete_reason"]) == (True, None)
    assert scenario["counts"] == {
        "warmup": 5,
        "measure": 13,
        "drain": 3,
        "ok": 16,
        "error": 0,
        "cancelled": 0,
        "errors_by_kind": {},
    }
    assert scenario["asked"]["users"] == 4
    assert scenario["client"]["loop_lag_ms_p99"] is not None


def test_the_request_is_what_the_options_say_and_extras_are_merged_last(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: [chat(["a"])]) as server:
        extras = json.dumps({"temperature": 0.5, "top_k": 1, "stream_options": None})
        options = ["--model", "m", "--fixed-length", "--max-tokens", "9", "--request-extras", extras, "--requests", "1"]
        run("single", f"{server.url}/api/v1/", tmp_path / "out", *options)
    asked = server.asked[0]
    del asked.body["messages"]
    assert asked.body == {
        **{"model": "m", "stream": True, "max_tokens": 9, "ignore_eos": True},
        **{"temperature": 0.5, "top_k": 1},
    }
    assert asked.head.startswith("POST /api/v1/chat/completions HTTP/1.1\r\n")
    assert "Accept-Encoding: identity" in asked.head


def test_a_record_tells_the_limit_that_was_sent_and_not_the_one_that_extras_replaced(tmp_path: Path) -> None:
    told: list[int | None] = []
    for extras in ({"max_tokens": 3}, {"max_tokens": None, "max_completion_tokens": 4}, {"max_tokens": None}):
        with ScriptedServer(lambda asked: [chat(["a"])]) as server:
            options = ["--max-tokens", "9", "--request-extras", json.dumps(extras), "--requests", "1"]
            outcome = run("single", server.url, tmp_path / f"out-{len(told)}", *options)
        told.append(outcome.records[0].max_tokens)
    assert told == [3, 4, None]


def test_without_a_count_every_prompt_is_asked_as_often_as_samples_say(tmp_path: Path) -> None:
    prompts = prompts_file(tmp_path / "mine.jsonl", [f"q{n}" for n in range(5)])
    with ScriptedServer(lambda asked: [chat(["a"])]) as server:
        outcome = run("concurrent_8", server.url, tmp_path / "out", "--prompts", str(prompts), "--samples", "2")
    assert sorted((r.prompt_id, r.sample) for r in outcome.records) == [
        (f"p{n}", s) for n in range(5) for s in range(2)
    ]
    assert (outcome.code, outcome.scenario["complete"]) == (0, True)


def test_a_window_of_time_ends_by_the_clock_and_what_is_in_flight_ends_too(tmp_path: Path) -> None:
    with ScriptedServer(slow) as server:
        outcome = run("concurrent_4", server.url, tmp_path / "out", "--duration", "1.5")
    scenario = outcome.scenario
    window_s = (scenario["measure_end_ns"] - scenario["measure_start_ns"]) / 1e9
    assert 1.5 <= window_s < 2.5
    assert len(server.asked) == len(outcome.records) == scenario["counts"]["ok"]
    assert max(r.sent_ns or 0 for r in outcome.records) <= scenario["measure_end_ns"]
    assert scenario["complete"] is True


def test_an_open_loop_sends_by_its_schedule_whether_or_not_answers_have_come(tmp_path: Path) -> None:
    options = ["--requests", "20", "--rate", "20", "--arrivals", "constant"]
    with ScriptedServer(lambda asked: paced(["a"] * 2, first_s=0.3, gap_s=0.1)) as server:
        outcome = run("open_loop", server.url, tmp_path / "out", *options)
    records = sorted(outcome.records, key=lambda r: r.scheduled_ns or 0)
    due = [r.scheduled_ns or 0 for r in records]
    assert [b - a for a, b in itertools.pairwise(due)] == pytest.approx([50_000_000] * 19, abs=1)
    assert all((r.sent_ns or 0) >= (r.scheduled_ns or 0) for r in records)
    assert server.most_in_flight >= 6
    assert {r.phase for r in records[:5]} == {"measure"}
    assert records[-1].phase == "drain"
    assert outcome.scenario["client"]["send_delay_ms_p99"] >= 0


def test_an_open_loop_with_too_few_users_sends_late_and_says_so(tmp_path: Path) -> None:
    options = ["--requests", "6", "--rate", "50", "--arrivals", "constant", "--users", "1"]
    with ScriptedServer(slow) as server:
        outcome = run("open_loop", server.url, tmp_path / "out", *options)
    assert (server.most_in_flight, outcome.scenario["client"]["late_sends"]) == (1, 5)


def test_the_last_arrival_of_a_slow_open_loop_is_waited_for(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: [chat(["a"])]) as server:
        options = ["--requests", "3", "--rate", "3", "--arrivals", "constant"]
        outcome = run("open_loop", server.url, tmp_path / "out", *options)
    assert (len(outcome.records), outcome.scenario["complete"]) == (3, True)


def in_steps(outcome: Outcome) -> list[list[Record]]:
    return [
        [r for r in outcome.records if step["start_ns"] <= (r.sent_ns or 0) < step["end_ns"]]
        for step in outcome.scenario["steps"]
    ]


def test_a_sweep_has_as_many_in_flight_as_each_step_says(tmp_path: Path) -> None:
    with ScriptedServer(slow) as server:
        outcome = run("sweep", server.url, tmp_path / "out", "--requests", "8", "--steps", "1,2,4")
    assert [most_in_flight(step) for step in in_steps(outcome)] == [1, 2, 4]
    assert [len(step) for step in in_steps(outcome)] == [8, 8, 8]
    assert (outcome.code, outcome.scenario["complete"]) == (0, True)


def test_a_sweep_of_rates_starts_a_new_schedule_with_each_step(tmp_path: Path) -> None:
    options = ["--requests", "8", "--steps", "10,40", "--step-by", "rate", "--arrivals", "constant"]
    with ScriptedServer(slow) as server:
        outcome = run("sweep", server.url, tmp_path / "out", *options)
    for step, gap_ns in zip(in_steps(outcome), (100_000_000, 25_000_000), strict=True):
        due = sorted(r.scheduled_ns or 0 for r in step)
        assert [b - a for a, b in itertools.pairwise(due)] == pytest.approx([gap_ns] * 7, abs=1)


def test_a_sweep_stops_behind_the_step_that_gained_nothing(tmp_path: Path) -> None:
    two = threading.Semaphore(2)

    def saturated(asked: Asked) -> list[Action]:
        with two:
            threading.Event().wait(0.12)  # long beside what a busy machine adds
            return [chat(["a"])]

    with ScriptedServer(saturated) as server:
        options = ["--requests", "16", "--steps", "1,2,4,8", "--stop-at-saturation"]
        outcome = run("sweep", server.url, tmp_path / "out", *options)
    assert outcome.scenario["saturated_at"] == 4
    assert [step["start_ns"] is not None for step in outcome.scenario["steps"]] == [True, True, True, False]
    assert outcome.scenario["complete"] is True


def test_a_ramp_lets_users_in_one_after_the_other(tmp_path: Path) -> None:
    with ScriptedServer(slow) as server:
        outcome = run("ramp", server.url, tmp_path / "out", "--requests", "40", "--ramp", "0.7", "--users", "4")
    first_of_user = [min(r.sent_ns or 0 for r in outcome.records if r.user == user) for user in range(4)]
    waits = [b - a for a, b in itertools.pairwise(first_of_user)]
    assert all(0.15e9 < wait < 0.6e9 for wait in waits)


HOOKED = """
from locust import events
from locustfiles.closed_loop import ClosedLoop

@events.init.add_listener
def listen(environment, **_):
    on = environment.events
    say = lambda line: open({path!r}, "a").write(line + "\\n")
    on.first_token.add_listener(lambda record: say("first"))
    on.inter_token.add_listener(lambda record, gaps_ms: say(f"gaps {{len(gaps_ms)}}"))
    on.stream_finished.add_listener(lambda record: say(f"finished {{record.ok}}"))
    on.request.add_listener(lambda **kw: say(f"request {{kw['exception'] is None}}"))
"""


def test_the_hooks_fire_once_a_request_and_in_order(tmp_path: Path) -> None:
    said = tmp_path / "said.txt"
    (tmp_path / "hooked.py").write_text(HOOKED.format(path=str(said)))
    with ScriptedServer(lambda asked: [chat(["a", "b", "c"])] if asked.number else [chat([])]) as server:
        argv = [sys.executable, "-m", "locust", "-f", str(tmp_path / "hooked.py"), "--headless", "--host", server.url]
        done = subprocess.run(
            [*argv, "--requests", "2", "--users", "1"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 1
    assert said.read_text().split("\n")[:-1] == [
        *("finished False", "request False"),
        *("first", "gaps 2", "finished True", "request True"),
    ]


def test_a_capture_can_be_continued_or_is_set_aside(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with ScriptedServer(lambda asked: [chat(["a"])]) as server:
        run("single", server.url, folder, "--requests", "2")
        with (folder / "requests.jsonl").open("a") as out:
            out.write('{"torn')
        assert len(run("single", server.url, folder, "--requests", "1", "--append").records) == 3
        assert len(run("single", server.url, folder, "--requests", "1").records) == 1
    assert len((folder / "requests.partial-1.jsonl").read_text().splitlines()) == 3


def test_killed_at_any_moment_all_but_the_last_line_can_be_read(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: [chat(["a"] * 50)]) as server:
        process = start("concurrent_8", server.url, tmp_path / "out", "--requests", "100000")
        path = tmp_path / "out" / "requests.jsonl"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not (path.exists() and path.stat().st_size > 200_000):
            time.sleep(0.01)
        process.kill()
        outcome = finish(process, tmp_path / "out")
    assert len(outcome.records) > 50
    assert outcome.scenario["complete"] is False


def test_a_row_and_a_task_have_their_own_budget_and_the_option_wins(tmp_path: Path) -> None:
    own = tmp_path / "own.jsonl"
    own.write_text(
        '{"prompt": "a", "max_tokens": 7, "prompt_id": null}\n{"prompt": "b", "prompt_id": null, "pool": null}\n'
    )

    def sent(*options: str) -> list[int]:
        with ScriptedServer(lambda asked: [chat(["a"])]) as server:
            outcome = run("single", server.url, tmp_path / options[-1], *options[:-1])
        assert outcome.code == 0, outcome.stderr[-2000:]
        return [asked.body["max_tokens"] for asked in server.asked]

    assert sent("--prompts", str(own), "rows") == [7, 128]
    assert sent("--prompts", "arithmetic", "--requests", "1", "task") == [256]
    assert sent("--prompts", str(own), "--max-tokens", "9", "option") == [9, 9]


def test_a_failed_request_ends_with_locusts_own_exit_code_on_error(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: [b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"]) as server:
        codes = [
            run("single", server.url, tmp_path / str(code), "--requests", "1", "--exit-code-on-error", str(code)).code
            for code in (7, 0)
        ]
    assert codes == [7, 0]
