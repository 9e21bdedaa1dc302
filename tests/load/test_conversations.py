"""Conversations as users hold them, held against what servers with a known script saw."""

from __future__ import annotations

import json
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
import requests

from driver.run.cell import missing_prompts
from records import CellFolder, Record
from scoring.captures import load_capture
from tests.load.load import run
from tests.load.scripted_server import Action, Asked, ScriptedServer, chat
from tests.load.test_distributed import two
from tests.load.web import pacing
from workloads import read_prompts


def conversations(path: Path, number: int, turns: int, *, think_s: float = 0.0, fixed: bool = True) -> Path:
    """A file of conversations whose texts say where they stand: q0.1, a0.1, q0.2 ..."""
    rows = []
    for n in range(number):
        said: list[dict[str, Any]] = [
            {"user": f"q{n}.{t}", **({"assistant": f"a{n}.{t}"} if fixed else {}), "think_s": think_s if t > 1 else 0}
            for t in range(1, turns + 1)
        ]
        rows.append({"prompt_id": f"c{n}", "turns": said})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def by_conversation(records: list[Record]) -> list[list[Record]]:
    """Each conversation's records, by turn."""
    ordered = sorted(records, key=lambda record: (record.conversation or "", record.turn or 0))
    return [list(group) for _, group in groupby(ordered, key=lambda record: record.conversation)]


def texts(asked: Asked) -> list[str]:
    return [f"{message['role']}: {message['content']}" for message in asked.body["messages"]]


def real_answer(asked: Asked) -> list[Action]:
    return [chat([f"real {asked.content}"])]


def test_each_turn_carries_the_fixed_answers_before_it_and_users_hold_one_conversation_at_a_time(
    tmp_path: Path,
) -> None:
    prompts = conversations(tmp_path / "talk.jsonl", 6, 3)
    with ScriptedServer(real_answer) as server:
        outcome = run("closed_loop", server.url, tmp_path / "out", "--prompts", str(prompts), "--users", "2")
        asked = [texts(one) for one in server.asked]
    assert outcome.code == 0, outcome.stderr[-2000:]
    assert ["user: q0.1", "assistant: a0.1", "user: q0.2", "assistant: a0.2", "user: q0.3"] in asked
    assert (len(asked), outcome.scenario["asked"]["conversations"], outcome.scenario["complete"]) == (18, 6, True)
    held = by_conversation(outcome.measured)
    assert [[record.prompt_id.partition("/")[2] for record in one] for one in held] == [["1", "2", "3"]] * 6
    for user in {record.user for record in outcome.measured}:
        mine = sorted((r for r in outcome.measured if r.user == user), key=lambda record: record.sent_ns or 0)
        assert [record.turn for record in mine] == [1, 2, 3] * (len(mine) // 3)


def test_the_models_own_answers_are_carried_where_that_is_asked(tmp_path: Path) -> None:
    prompts = conversations(tmp_path / "talk.jsonl", 1, 2, fixed=False)
    with ScriptedServer(real_answer) as server:
        refused = run("single", server.url, tmp_path / "a", "--prompts", str(prompts))
        outcome = run("single", server.url, tmp_path / "b", "--prompts", str(prompts), "--carry", "real")
        asked = [texts(one) for one in server.asked]
    assert refused.code == 2
    assert "--carry: turn 1 of c0 has no `assistant` to go on with" in refused.stderr
    assert outcome.code == 0, outcome.stderr[-2000:]
    assert asked == [["user: q0.1"], ["user: q0.1", "assistant: real q0.1", "user: q0.2"]]


def test_think_times_are_kept(tmp_path: Path) -> None:
    prompts = conversations(tmp_path / "talk.jsonl", 4, 3, think_s=0.4)
    with pacing("--ttft-ms", "30", "--interval-ms", "5") as url:
        options = ["--prompts", str(prompts), "--users", "2", "--max-tokens", "4"]
        outcome = run("closed_loop", url, tmp_path / "out", *options)
        truth = requests.get(f"{url}/requests", timeout=5).json()["requests"]
    received = sorted(row["received_ns"] for row in truth)
    sent = sorted(record.sent_ns or 0 for record in outcome.measured)
    assert len(sent) == len(received) == 12
    # The server is on this host and its clock is ours: it got each turn after the record says that it was sent.
    assert all(here <= there for here, there in zip(sent, received, strict=True))
    for held in by_conversation(outcome.measured):
        pauses = [((b.sent_ns or 0) - a.end_ns) / 1e9 for a, b in pairwise(held)]
        assert all(pause >= 0.4 for pause in pauses), pauses


def test_a_failed_turn_ends_its_conversation_and_no_other(tmp_path: Path) -> None:
    def script(asked: Asked) -> list[Action]:
        return [b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno"] if asked.content == "q1.2" else real_answer(asked)

    prompts = conversations(tmp_path / "talk.jsonl", 3, 3)
    with ScriptedServer(script) as server:
        outcome = run("single", server.url, tmp_path / "out", "--prompts", str(prompts))
    assert outcome.code == 1
    assert [[record.turn for record in held] for held in by_conversation(outcome.measured)] in (
        [[1, 2, 3], [1, 2], [1, 2, 3]],
        [[1, 2], [1, 2, 3], [1, 2, 3]],
        [[1, 2, 3], [1, 2, 3], [1, 2]],
    )
    assert outcome.scenario["complete"], outcome.scenario["incomplete_reason"]
    assert outcome.scenario["counts"]["error"] == 1


def test_a_duration_says_when_conversations_may_begin_and_each_goes_on_to_its_end(tmp_path: Path) -> None:
    prompts = conversations(tmp_path / "talk.jsonl", 50, 4, think_s=0.2)
    with pacing("--ttft-ms", "20", "--interval-ms", "5") as url:
        options = ["--prompts", str(prompts), "--users", "2", "--max-tokens", "4", "--duration", "1"]
        outcome = run("closed_loop", url, tmp_path / "out", *options)
    assert len(outcome.measured) < 4 * 50
    assert all(len(held) == 4 for held in by_conversation(outcome.measured))


@pytest.mark.parametrize(("option", "said"), [("--requests", "count those instead"), ("--conversations", "single")])
def test_what_is_counted_must_be_what_is_asked(tmp_path: Path, option: str, said: str) -> None:
    prompts = "perf-short" if option == "--conversations" else str(conversations(tmp_path / "talk.jsonl", 2, 2))
    with pacing() as url:
        outcome = run("single", url, tmp_path / "out", "--prompts", prompts, option, "2")
    assert outcome.code == 2
    assert said in outcome.stderr


def test_a_conversation_stays_with_its_worker(tmp_path: Path) -> None:
    prompts = conversations(tmp_path / "talk.jsonl", 12, 3)
    with ScriptedServer(real_answer) as server:
        options = ["--prompts", str(prompts), "--users", "4", *two()]
        outcome = run("closed_loop", server.url, tmp_path / "out", *options)
    assert outcome.code == 0, outcome.stderr[-2000:]
    held = by_conversation(outcome.measured)
    assert [[record.turn for record in one] for one in held] == [[1, 2, 3]] * 12
    assert all(len({(record.worker, record.user) for record in one}) == 1 for one in held)
    assert len({one[0].worker for one in held}) == 2
    assert len({one[0].prompt_id for one in held}) == 12
    assert (outcome.scenario["complete"], outcome.scenario["asked"]["conversations"]) == (True, 12)


def test_incomplete_conversations_begin_again_and_only_the_last_one_counts(tmp_path: Path) -> None:
    file = conversations(tmp_path / "talk.jsonl", 3, 3)
    with ScriptedServer(real_answer) as server:
        whole = run("single", server.url, tmp_path / "whole", "--prompts", str(file))
        # As a kill leaves it: the second conversation was cut after its second turn, the third never began.
        folder = CellFolder(tmp_path / "cut")
        folder.path.mkdir()
        order = [(f"c{n}/{turn}") for n in range(3) for turn in (1, 2, 3)]
        lines = {record.prompt_id: record.to_json_line() for record in whole.measured}
        folder.requests.write_text("".join(lines[prompt_id] for prompt_id in order[:5]))
        missing = missing_prompts(folder, read_prompts(file), 1)
        assert [prompt.prompt_id for prompt in missing] == ["c1", "c2"]
        rest = tmp_path / "rest.jsonl"
        rest.write_text("".join(json.dumps(prompt.to_row()) + "\n" for prompt in missing))
        again = run("single", server.url, folder.path, "--prompts", str(rest), "--append")
    assert again.code == 0, again.stderr[-2000:]
    capture = load_capture(folder, "e", 1, resumable=True)
    counted = capture.measured.groupby("asked_id")["turn"].apply(list)
    assert counted.to_dict() == {f"c{n}": [1.0, 2.0, 3.0] for n in range(3)}
    assert len(capture.requests) == 5 + 6
