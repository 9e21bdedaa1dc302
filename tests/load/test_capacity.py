"""A capacity search over a server with a known knee: the pacing server with six slots, and a line before them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from load.options import UsageError, check, plain_parser
from load.schedule.capacity import Director
from load.schedule.search import Plan
from tests.load.load import run
from tests.load.web import pacing
from tests.scoring.hand import request

SERVER = ("--ttft-ms", "60", "--interval-ms", "10", "--slots", "6")
LOAD = ("--max-tokens", "5", "--objectives", "ttft_ms=110", "--start", "4", "--end", "10")
"""An answer takes 100 ms. Of seven users one in seven has to wait for all of that: a TTFT of 160 ms."""


def test_the_knee_of_a_server_with_six_slots_is_found_within_a_step(tmp_path: Path) -> None:
    with pacing(*SERVER) as url:
        outcome = run("capacity", url, tmp_path, *LOAD)
    assert outcome.code == 0, outcome.stderr[-2000:]
    found = outcome.scenario["capacity"]
    assert found["complete"]
    # On a busy host the server itself may be late in more than one of twenty requests.
    assert found["passes"] in (5, 6)
    assert found["fails"] in (6, 7, 8)
    assert found["objectives"] == {"ttft_ms": 110.0}
    assert "4 users: passes, 100.0% of 73 requests" in outcome.stderr
    steps = outcome.scenario["steps"]
    assert [step["level"] for step in steps] == [level["level"] for level in found["levels"]]
    # Levels do not overlap, and every request was sent inside one.
    assert all(a["end_ns"] <= b["start_ns"] for a, b in itertools.pairwise(steps))
    assert sum(step["admitted"] for step in steps) == len(outcome.measured)
    # The first request of each user of a level does not count, nor what ends after the verdict.
    first = steps[0]["admitted"] - found["levels"][0]["requests"]
    assert 4 <= first <= 12


def test_the_rate_that_six_slots_carry_is_found_within_a_step(tmp_path: Path) -> None:
    # 6 slots / 0.1 s: 60 requests a second.
    options = ["--max-tokens", "5", "--objectives", "e2e_ms=250", "--pass-share", "0.9", "--step-by", "rate"]
    options += ["--start", "20", "--step", "20", "--end", "200", "--arrivals", "constant", "--settle", "1", "-u", "60"]
    with pacing(*SERVER) as url:
        outcome = run("capacity", url, tmp_path, *options)
    found = outcome.scenario["capacity"]
    assert outcome.code == 0, outcome.stderr[-2000:]
    assert found["passes"] in (40, 60), found
    assert found["fails"] in (60, 80), found


def test_two_workers_follow_one_search(tmp_path: Path) -> None:
    with pacing(*SERVER) as url:
        outcome = run("capacity", url, tmp_path, *LOAD, "--level-cap", "200", "--processes", "2")
    assert outcome.code == 0, outcome.stderr[-2000:]
    scenario = outcome.scenario
    assert scenario["complete"], scenario["incomplete_reason"]
    assert scenario["capacity"]["passes"] in (5, 6)
    levels = [[step["level"] for step in worker["steps"]] for worker in scenario["workers"]]
    assert levels[0] == levels[1] == [level["level"] for level in scenario["capacity"]["levels"]]
    assert {record.worker for record in outcome.measured} == {worker["worker"] for worker in scenario["workers"]}


def test_a_search_ends_with_its_time(tmp_path: Path) -> None:
    with pacing(*SERVER) as url:
        outcome = run("capacity", url, tmp_path, *LOAD, "--time-limit", "0.8", "--confidence", "0.9999999")
    found = outcome.scenario["capacity"]
    assert outcome.code == 0, outcome.stderr[-2000:]
    assert (found["complete"], found["reason"]) == (False, "the time limit of 0.8 s")
    assert found["fails"] is None


# -- the director alone ------------------------------------------------------------------------------------------------


class Told:
    """What a director told the processes."""

    def __init__(self, clock: list[float], **plan: Any) -> None:
        self.ended, self.begun = 0, list[float | None]()
        self.director = Director(
            Plan(1, 1, 4, **plan),
            {"ttft_ms": 50.0, "tpot_ms": 50.0},
            by="users",
            time_limit_s=10.0,
            end_level=self._end,
            begin_level=self.begun.append,
            on_change=lambda: None,
            clock=lambda: clock[0],
        )

    def _end(self) -> None:
        self.ended += 1


GOOD, BAD = request(0, 90, chunks_ms=[30, 60, 90]), request(0, 190, chunks_ms=[130, 160, 190])


def test_requests_of_another_level_and_of_its_settling_do_not_count() -> None:
    told = Told([0.0])
    for _ in range(100):
        told.director.observe(BAD, None)
        told.director.observe(BAD, 1)
    assert (told.ended, told.director.search.current.test.requests) == (0, 0)
    for _ in range(73):
        told.director.observe(GOOD, 0)
    assert (told.ended, told.begun) == (1, [])
    # What was in flight ends after the verdict, and changes nothing.
    told.director.observe(BAD, 0)
    told.director.level_over()
    assert told.begun == [2.0]
    for _ in range(2):
        told.director.observe(BAD, 1)
    told.director.level_over()
    assert told.begun == [2.0, 1.0]  # from above


def test_an_unknown_tpot_ends_the_search_with_the_reason() -> None:
    told = Told([0.0])
    told.director.observe(request(0, 90, chunks_ms=[30, 60, 90], completion_tokens=None), 0)
    told.director.level_over()
    assert (told.ended, told.begun) == (1, [None])
    assert "TPOT is unknown" in told.director.summary()["reason"]


def test_the_time_is_looked_at_with_every_request() -> None:
    clock = [0.0]
    told = Told(clock)
    told.director.observe(GOOD, None)
    clock[0] = 10.5
    told.director.observe(GOOD, None)
    assert told.ended == 1
    assert told.director.summary()["reason"] == "the time limit of 10 s"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "--objectives: a capacity needs at least one"),
        (["--objectives", "ttft_ms=5", "--start", "9", "--end", "8"], "0 < start <= end"),
        (["--objectives", "ttft_ms=5", "--step", "0.5"], "whole numbers of users"),
        (["--objectives", "ttft_ms=5", "--requests", "9"], "--requests: a capacity search measures"),
        (["--objectives", "ttft_ms=5", "--pass-share", "1"], "between 0 and 1"),
    ],
)
def test_options_that_make_no_search_are_refused(words: list[str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check(plain_parser().parse_args(words), "capacity")
