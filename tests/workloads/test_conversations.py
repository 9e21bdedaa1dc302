"""Conversations of files and of planned lengths."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from workloads import TaskError, load_prompts, read_prompts, write_prompts
from workloads.synthetic import Lengths, synthetic_prompts


def test_rows_with_turns_are_conversations_and_keep_what_comes_before(tmp_path: Path) -> None:
    row = {
        "prompt_id": "c",
        "messages": [{"role": "system", "content": "be kind"}],
        "turns": [{"user": "one", "assistant": "1"}, {"user": "two", "think_s": 1.5, "max_tokens": 9}, "three"],
    }
    file = tmp_path / "talk.jsonl"
    file.write_text(json.dumps(row))
    [prompt] = read_prompts(file)
    second = prompt.turn(2, ["1"])
    assert [message["content"] for message in second.messages] == ["be kind", "one", "1", "two"]
    assert (second.prompt_id, second.max_tokens, prompt.turns[1].think_s, second.turns) == ("c/2", 9, 1.5, ())
    write_prompts(tmp_path / "again.jsonl", [prompt])
    assert read_prompts(tmp_path / "again.jsonl") == [prompt]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"turns": []}, "`turns` must be a list with at least one turn"),
        ({"turns": [{"user": "a"}, {"assistant": "b"}]}, "turn 2 needs `user`"),
        ({"turns": [{"user": "a", "think_s": -1}]}, "turn 1: `think_s` must be seconds from 0 to 3600"),
        ({"turns": [{"user": "a", "max_tokens": 0}]}, "turn 1: `max_tokens` must be a whole number"),
        ({"turns": [{"user": "a"}], "gold": "4"}, "`gold` goes with a single question"),
        ({"turns": [{"user": "\ud800"}]}, "half a surrogate pair"),
    ],
)
def test_a_damaged_row_is_named_with_its_line(tmp_path: Path, row: dict[str, Any], said: str) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text('{"turns": ["fine"]}\n' + json.dumps(row))
    with pytest.raises(TaskError, match=r"talk\.jsonl:2: ") as caught:
        read_prompts(file)
    assert said in str(caught.value)


def test_a_sharegpt_file_is_taken_as_far_as_both_speak_in_turn(tmp_path: Path) -> None:
    def said(*messages: tuple[str, str]) -> list[dict[str, str]]:
        return [{"from": who, "value": text} for who, text in messages]

    entries = [
        {"id": "x", "conversations": said(("human", "a"), ("gpt", "b"), ("human", "c"), ("gpt", "d"))},
        {"id": "x", "conversations": said(("system", "s"), ("user", "a"), ("chatgpt", "b"), ("chatgpt", "twice"))},
        {"id": "y", "conversations": said(("gpt", "begins"))},
        {"conversations": []},
    ]
    file = tmp_path / "share.json"
    for indent in (None, 1):
        file.write_text(json.dumps(entries, indent=indent))
        prompts = [prompt for prompt in load_prompts(str(file)) if prompt.turns]
        assert [(p.prompt_id, [(t.user, t.assistant) for t in p.turns]) for p in prompts] == [
            ("1-x", [("a", "b"), ("c", "d")]),
            ("2-x", [("a", "b")]),
        ]
        assert prompts[1].messages[0] == {"role": "system", "content": "s"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON"),
        ('{"a": 1}', "a ShareGPT file is a JSON list"),
        ('[{"conversations": []}, {"id": 2}]', "entry 2 has no list `conversations`"),
        ('[{"conversations": [{"from": "gpt", "value": "x"}]}]', "no conversation that a human begins"),
    ],
)
def test_what_is_no_sharegpt_file_is_said_to_be_none(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "share.json").write_text(content)
    with pytest.raises(TaskError, match=said):
        load_prompts(str(tmp_path / "share.json"))


def test_synthetic_turns_have_the_planned_lengths_and_think_times() -> None:
    lengths = Lengths(20, output_tokens=10, turns=6, turns_sd=2, think_s=2.0, think_sd=1.0)
    prompts = synthetic_prompts("t", lengths, seed=1, count=600, warmup=2)
    assert synthetic_prompts("t", lengths, seed=1, count=50, warmup=2)[:50] == prompts[:50]
    assert statistics.mean(len(p.turns) for p in prompts) == pytest.approx(6, rel=0.05)
    thinks = [turn.think_s for p in prompts for turn in p.turns[1:]]
    assert statistics.mean(thinks) == pytest.approx(2.0, rel=0.05)
    assert statistics.stdev(thinks) == pytest.approx(1.0, rel=0.15)
    for prompt in prompts[:50]:
        answers = [turn.assistant or "" for turn in prompt.turns]
        for number, turn in enumerate(prompt.turns, start=1):
            asked = prompt.turn(number, answers)
            assert sum(len(message["content"].split()) for message in asked.messages) == turn.input_tokens
            assert turn.input_tokens == 20 * number + 10 * (number - 1) == asked.input_tokens


def test_a_share_of_the_prompts_begins_with_a_prefix_and_says_so() -> None:
    lengths = Lengths(100, prefix_tokens=60, prefix_groups=3, prefix_share=0.4)
    prompts = synthetic_prompts("p", lengths, seed=1, count=2000, warmup=1)[:2000]
    sharing = [prompt for prompt in prompts if prompt.prefix_group is not None]
    assert len(sharing) / len(prompts) == pytest.approx(0.4, abs=0.03)
    begins = {(p.prefix_group, " ".join(p.messages[0]["content"].split()[:60])) for p in sharing}
    assert len(begins) == 3
    assert {p.prefix_tokens for p in sharing} == {60}
    assert {p.prefix_tokens for p in prompts if p.prefix_group is None} == {None}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"turns": 2}, "turns needs output_tokens"),
        ({"think_s": 1.0}, "think_s needs turns"),
        ({"prefix_share": 0.5}, "prefix_share needs prefix_tokens"),
        ({"turns": 2, "output_tokens": 4, "think_sd": 1.0}, "think_sd needs think_s"),
    ],
)
def test_keys_that_need_another_are_refused_without_it(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Lengths(10, **keys)
