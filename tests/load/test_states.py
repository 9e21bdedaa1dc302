"""The state machines of the load, driven directly: a distributed test, who may join it, a sweep, a session.

They run in a process of their own, for gevent's events want the hub; the last line of each script is its verdict.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.load.load import ROOT

PRELUDE = """
from argparse import Namespace
from types import SimpleNamespace as Bag
from load.capture import Capture
from load.distributed import join, master
from load.distributed.progress import Progress
from load.options import plain_parser
from load.schedule.admission import Admission
from load.schedule.sweep import Sweep
from load.schedule.tickets import Prompts, Shard
from load.session import Session
from load.environment_state import State, attach, state_of
from records import Phase
from workloads import Prompt

def progress(**fields):
    return Progress(Capture(None, append=False), {"a", "b"}, 4, **fields)

def end(reason=None, failed=0, sent=0):
    counts = {"measure": sent, "drain": 0}
    return {"incomplete_reason": reason, "failed": failed, "counts": counts}

def options(*argv):
    return plain_parser().parse_args(list(argv))

def prompts(count, pool="measure"):
    return [Prompt(f"{pool}{n}", ({"role": "user", "content": "x"},), None, "own", pool) for n in range(count)]
"""


def said(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


def test_a_distributed_test_measures_once_all_are_warm_and_ends_once_all_are_over() -> None:
    assert said(
        """
p = progress()
steps = [(p.all_warm, p.all_over, p.all_ended)]
p.warm.add("a"); p.warm.add("b")
steps.append((p.all_warm, p.all_over, p.all_ended))
p.over |= {"a", "b"}
p.ends = {"a": end(), "b": end()}
steps.append((p.all_warm, p.all_over, p.all_ended))
print(steps, p.incomplete_reason(4), p.failed)
"""
    ) == "[(False, False, False), (True, False, False), (True, True, True)] None False"  # fmt: skip


def test_a_lost_worker_holds_nobody_up_and_makes_the_capture_incomplete_even_if_it_comes_back() -> None:
    assert said(
        """
p = progress(warm={"a"})
lost = p.see_workers(["a"], [])
print(lost, p.all_warm, p.here)
p.ends = {"a": end(), "b": end()}
print(p.see_workers(["a", "b"], []), p.incomplete_reason(4), p.failed)
"""
    ) == "['b'] True ['a']\n[] worker lost: b True"  # fmt: skip


def test_a_worker_that_was_dealt_no_part_makes_the_capture_incomplete() -> None:
    assert said(
        """
p = progress()
print(p.see_workers(["a", "b", "stray"], []))
p.ends = {"a": end(), "b": end()}
print(p.incomplete_reason(4))
"""
    ) == "[]\na worker joined during the test: stray"  # fmt: skip


@pytest.mark.parametrize(
    ("ends", "users", "reason"),
    [
        ("{'a': end()}", 4, "worker lost: b"),
        ("{'a': end(), 'b': end()}", 6, "the number of users was changed from 4 to 6 during the test"),
        ("{'a': end('stopped'), 'b': end('stopped')}", 4, "stopped"),
        ("{'a': end(sent=2), 'b': end(sent=1)}", 4, "workers sent 3 records, 0 were written"),
    ],
)
def test_a_distributed_test_says_why_it_is_incomplete(ends: str, users: int, reason: str) -> None:
    assert said(f"print(progress(ends={ends}).incomplete_reason({users}))") == reason


def test_a_second_stop_asks_no_worker_again() -> None:
    # Locust makes one where a worker says only after the first that it has begun; it would kill what is in flight.
    assert said(
        """
sent, quits = [], []
runner = Bag(send_message=lambda kind, data, client_id: sent.append((kind, client_id)), quit=lambda: quits.append(1))
environment = Bag(runner=runner, web_ui=None, stop_timeout=1.0)
attach(environment, State("closed_loop", "closed", None, None))
state_of(environment).progress = progress(ends={"a": end(), "b": end()})
master.stopping(environment)
for worker in "ab":
    master._on_over(environment, Bag(node_id=worker, data={}))
master.stopping(environment)
master.gevent.sleep(0.01)
print(sent, quits)
"""
    ) == "[('enginebench_drain', 'a'), ('enginebench_drain', 'b')] []"  # fmt: skip


GUARD = """
sent, passed = [], []
class Runner:
    def __init__(self): self.clients = {}
    def handle_message(self, client_id, msg): passed.append((client_id, msg.type))
    def send_message(self, kind, data=None, client_id=None): sent.append((kind, client_id))
runner = Runner()
def guard(**given):
    return join.JoinGuard(runner, **{"scenario": "closed_loop", "forks": False, "waits": False, **given})
def say(kind, who, data=None): runner.handle_message(who, Bag(type=kind, data=data, node_id=who))
mine = {"fork_token": "", "token": "", "scenario": "closed_loop"}
"""


def test_a_worker_joins_once_it_has_shown_its_run_and_is_held_back_until_then() -> None:
    assert said(
        GUARD
        + """
guard()
say("client_ready", "w", "2"); say("heartbeat", "w")
print(sent, passed)
say("enginebench_join", "w", mine); say("heartbeat", "w")
print(passed)
"""
    ) == "[('ack', 'w')] []\n[('w', 'client_ready'), ('w', 'heartbeat')]"  # fmt: skip


@pytest.mark.parametrize(
    ("shown", "given"),
    [
        ("{**mine, 'fork_token': 'of another run'}", "forks=True"),
        ("mine", "forks=True"),
        ("{**mine, 'token': 'another'}", ""),
        ("{**mine, 'scenario': 'single'}", ""),
        ("{}", ""),
    ],
)
def test_a_worker_of_another_run_is_refused(shown: str, given: str) -> None:
    script = (
        f'guard({given}); say("client_ready", "w", "2"); say("enginebench_join", "w", {shown}); print(sent, passed)'
    )
    assert said(GUARD + script) == "[('ack', 'w'), ('enginebench_refused', 'w')] []"


@pytest.mark.parametrize(
    ("waits", "outcome"),
    [("False", "[('ack', 'w'), ('enginebench_refused', 'w')] []"), ("True", "[('ack', 'w')] [('w', 'client_ready')]")],
)
def test_a_worker_that_comes_during_a_test_waits_for_its_end_or_is_refused(waits: str, outcome: str) -> None:
    script = f"""
g = guard(waits={waits}); g.close()
say("client_ready", "w", "2"); say("enginebench_join", "w", mine)
assert passed == []
g.open()
print(sent, passed)
"""
    assert said(GUARD + script) == outcome


@pytest.mark.parametrize(
    ("arguments", "variables", "own"),
    [
        ("--processes 2", "", True),
        ("--processes=2 -u 4", "", True),
        ("--processes 2 --worker", "", False),
        ("--processes 2 --master-bind-port 6000", "", False),
        ("--processes 2 --master-port=6000", "", False),
        ("--processes 2", "LOCUST_MASTER_PORT", False),
        ("--master", "", False),
        ("", "LOCUST_PROCESSES", True),
    ],
)
def test_a_master_that_forks_its_workers_takes_a_port_of_its_own(arguments: str, variables: str, own: bool) -> None:
    script = f"print(join.own_port({arguments.split()}, {variables.split()}) is not None)"
    assert said(script) == str(own)


def test_a_sweep_takes_its_steps_in_turn_and_finds_where_nothing_is_gained() -> None:
    assert said(
        """
s = Sweep(options("--steps", "1,2,4", "--stop-at-saturation"), Shard())
seen = []
for ended, seconds in ((10, 1), (10, 1), (10, 1)):
    step = s.begin()
    seen.append((step.level, [s.takes_part(user) for user in range(4)]))
    step.ended, step.start_ns = ended, step.start_ns - seconds * 10**9
    if not s.end():
        break
    s.advance()
print(seen, s.saturated_at, s.begun)
"""
    ) == "[(1.0, [True, False, False, False]), (2.0, [True, True, False, False])] 2.0 2"  # fmt: skip


def test_admission_gives_out_what_is_owed_and_is_idle_once_all_came_back() -> None:
    assert said(
        """
events = []
a = Admission(options("--requests", "2", "--warmup", "1"), "closed",
    Prompts(prompts(2) + prompts(1, "warmup"), warmup=1, shard=Shard()),
    Shard(), lambda: 1, on_measure=lambda: events.append("measure"), on_idle=lambda: events.append("idle"))
a.arrive()
while ticket := a.next(0):
    events.append(str(ticket.phase))
    a.done(ticket)
print(events, a.closed, a.stop_reason, a.required)
"""
    ) == "['warmup', 'measure', 'measure', 'measure', 'idle'] True None 2"  # fmt: skip


SESSION = """
users = [2]
kept = []
def session(*argv):
    return Session(options("--prompts", "perf-short", *argv), "closed_loop", "closed", Shard(),
        host="http://127.0.0.1:1", users=lambda: users[0], capture=None, on_record=kept.append)
"""


def test_a_session_that_is_stopped_early_says_so_and_keeps_what_was_asked() -> None:
    assert said(
        SESSION
        + """
s = session("--requests", "5")
s.admission.arrive(); s.admission.arrive()
s.next(0)
s.stop(); s.finish()
told = s.describe(ended=True)
print(told["asked"]["users"], told["complete"], told["incomplete_reason"])
"""
    ) == "2 False stopped before it was complete"  # fmt: skip


def test_an_attempt_that_is_asked_again_is_no_evidence_on_a_level() -> None:
    assert said(
        SESSION
        + """
from load.record_builder import Exchange
from load.schedule.tickets import Ticket
from records import ErrorKind
s, levels = session("--requests", "5"), []
s.send_records_with(lambda record, level: levels.append((record.attempt, level)))
ticket = Ticket(prompts(1)[0], 0, Phase.MEASURE, level=3)
for attempt, retried in ((1, True), (2, False)):
    s.ended(Exchange(ticket, 0, 1, attempt, end_ns=9, failure=(ErrorKind.RATE_LIMITED, "429"), retried=retried))
s.finish()
print(levels)
"""
    ) == "[(1, None), (2, 3)]"  # fmt: skip


def test_a_session_whose_number_of_users_is_changed_is_incomplete_and_keeps_the_number_asked() -> None:
    assert said(
        SESSION
        + """
s = session("--requests", "5")
s.admission.arrive(); s.admission.arrive()
s.next(0)
users[0] = 3
s.stop(); s.finish()
told = s.describe(ended=True)
print(told["asked"]["users"], told["incomplete_reason"])
"""
    ) == "2 the number of users was changed from 2 to 3 during the test"  # fmt: skip


def test_the_first_failure_of_a_session_stays_and_ends_it() -> None:
    assert said(
        SESSION
        + """
s = session("--requests", "5")
s.fail("the disk is full"); s.fail("later")
print(s.over.is_set(), s.admission.closed, s.incomplete_reason)
"""
    ) == "True True the disk is full"  # fmt: skip
