"""A trace is sent at its times: by one process, by two, faster than recorded, and whole again after a kill."""

from __future__ import annotations

import signal
from itertools import pairwise
from pathlib import Path

import pytest

from load.options import UsageError, plain_parser
from load.schedule.trace import check_trace
from records import Record
from tests.driver.bench import Bench, records, until
from tests.load.load import ROOT, Outcome, run
from tests.load.test_distributed import two
from tests.load.web import pacing
from workloads import Prompt, load_prompts, write_prompts
from workloads.trace_prompts import trace_prompts
from workloads.traces import read_trace

TRACE = ROOT / "tests/workloads/traces/mooncake.jsonl"
"""Five requests, due after 0, 250, 250, 600 and 900 ms."""


def workload(path: Path, *, speed: float = 1.0) -> Path:
    write_prompts(path, trace_prompts("t", read_trace(TRACE), seed=1, speed=speed, warmup=2, cap=64))
    return path


def replayed(tmp_path: Path, *options: str, speed: float = 1.0) -> Outcome:
    with pacing("--ttft-ms", "5", "--interval-ms", "1") as url:
        prompts = workload(tmp_path / "w.jsonl", speed=speed)
        return run(
            "open_loop",
            url,
            tmp_path / "out",
            "--prompts",
            str(prompts),
            "--arrivals",
            "trace",
            "--users",
            "16",
            *options,
        )


def due_ms(records: list[Record]) -> dict[str, float]:
    """When each request was due, on its worker's clock."""
    return {record.prompt_id: (record.scheduled_ns or 0) / 1e6 for record in records}


def test_each_request_is_due_at_its_time_and_none_is_sent_before(tmp_path: Path) -> None:
    outcome = replayed(tmp_path, "--warmup", "2")
    assert outcome.code == 0, outcome.stderr[-2000:]
    due = sorted(due_ms(outcome.measured).items())
    assert [round(at - due[0][1], 3) for _, at in due] == [0, 250, 250, 600, 900]
    assert all((record.sent_ns or 0) >= (record.scheduled_ns or 0) for record in outcome.measured)
    assert [record.max_tokens for record in sorted(outcome.measured, key=lambda r: r.prompt_id)] == [5, 6, 4, 7, 4]
    assert outcome.scenario["complete"] and outcome.scenario["asked"]["rate"] is None
    assert outcome.scenario["asked"]["arrivals"] == "trace"


def test_speed_halves_the_times(tmp_path: Path) -> None:
    due = sorted(due_ms(replayed(tmp_path, speed=2.0).measured).items())
    assert [round(at - due[0][1], 3) for _, at in due] == [0, 125, 125, 300, 450]


def test_two_processes_send_each_request_once_and_at_its_time(tmp_path: Path) -> None:
    outcome = replayed(tmp_path, *two())
    assert outcome.code == 0, outcome.stderr[-2000:]
    assert sorted(record.prompt_id for record in outcome.measured) == [f"t-0000{n}" for n in range(1, 6)]
    by_worker: dict[str, list[float]] = {}
    for record in sorted(outcome.measured, key=lambda r: r.scheduled_ns or 0):
        by_worker.setdefault(record.worker, []).append((record.scheduled_ns or 0) / 1e6)
    # Every second request each: 0, 250, 900 and 250, 600.
    gaps = sorted([round(b - a, 3) for a, b in pairwise(times)] for times in by_worker.values())
    assert gaps == [[250, 650], [350]]


def test_a_trace_that_is_over_before_its_duration_ends_the_load(tmp_path: Path) -> None:
    outcome = replayed(tmp_path, "--duration", "30")
    assert len(outcome.measured) == 5 and outcome.scenario["complete"]


def test_a_duration_cuts_a_trace(tmp_path: Path) -> None:
    outcome = replayed(tmp_path, "--duration", "0.5")
    assert len(outcome.measured) == 3 and outcome.scenario["complete"]


def test_prompts_without_times_and_too_many_requests_are_refused() -> None:
    parser = plain_parser()
    with pytest.raises(UsageError, match="has no `at_s`"):
        check_trace(parser.parse_args(["--arrivals", "trace"]), load_prompts("arithmetic"))
    timed = [Prompt("p", ({"role": "user", "content": "?"},), at_s=0.0)]
    with pytest.raises(UsageError, match="the trace has 1"):
        check_trace(parser.parse_args(["--arrivals", "trace", "--requests", "2"]), timed)
    late_first = [Prompt(name, timed[0].messages, at_s=at_s) for name, at_s in (("p", 5.0), ("q", 1.0))]
    with pytest.raises(UsageError, match="prompt q is due before the one above it"):
        check_trace(parser.parse_args(["--arrivals", "trace"]), late_first)


PROFILE = """
name = "p"
baseline = "a"
rounds = 1
[[engines]]
name = "a"
kind = "pacing"
port = {port}
options = {{ ttft_ms = 5.0, interval_ms = 1.0 }}
[[cells]]
scenario = "open_loop"
workload = "t"
users = 8
warmup = 1
options = {{ arrivals = "trace" }}
[workloads.t]
trace = {{ file = "{trace}", speed = 0.25, cap_tokens = 32 }}
"""


@pytest.mark.engines
def test_a_replay_that_was_killed_starts_again_whole_and_can_itself_be_replayed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    profile = bench.profile(PROFILE, trace=TRACE)
    process = bench.start("run", profile, "--run-id", "r")
    cell = bench.cell("open_loop.t")
    # The first requests are on disk; the last is due after 3.6 s.
    assert until(lambda: cell.requests.exists() and cell.requests.read_text().count("\n") >= 2, 60)
    process.send_signal(signal.SIGKILL)
    bench.finish(process)
    assert not cell.complete
    done = bench.run("run", profile, "--run-id", "r")
    assert done.code in (0, 3), done.stderr  # a busy machine voids
    measured = [record for record in records(cell) if record.measured]
    due = sorted(due_ms(measured).items())
    assert [round(at - due[0][1], 3) for _, at in due] == [0, 1000, 1000, 2400, 3600]
    assert list(cell.path.glob("requests.partial-*.jsonl"))

    done = bench.run("replay", "r", f"{profile}:a", "--rounds", "1", "--speed", "4", "--run-id", "again")
    assert done.code in (0, 3), done.stderr
    again = [record for record in records(bench.cell("open_loop.replayed", "again")) if record.measured]
    assert {r.prompt_sha256 for r in again} == {r.prompt_sha256 for r in measured}
    assert sorted(r.max_tokens or 0 for r in again) == sorted(r.completion_tokens or 0 for r in measured)
    times = sorted(due_ms(again).values())
    assert [round(at - times[0]) for at in times] == [0, 250, 250, 600, 900]
