"""Traces in four formats: when requests came, how long they were, and which prefixes they shared."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.records.test_records import record
from workloads import Prompt, TaskError, read_prompts, write_prompts
from workloads.trace_prompts import BLOCK_TOKENS, recorded_prompts, trace_prompts
from workloads.traces import read_trace

FILES = Path(__file__).parent / "traces"


def prompts_of(name: str, **made: Any) -> list[Prompt]:
    options = {"seed": 1, "speed": 1.0, "warmup": 2, "cap": None, **made}
    prompts = trace_prompts(name, read_trace(next(FILES.glob(f"{name}.*"))), **options)
    return [prompt for prompt in prompts if prompt.pool == "measure"]


def words(prompt: Prompt) -> list[str]:
    return prompt.messages[-1]["content"].split()


def test_mooncakes_times_are_milliseconds_and_its_ids_name_blocks() -> None:
    trace = read_trace(FILES / "mooncake.jsonl")
    assert trace.format == "mooncake" and trace.seconds == 0.9
    assert [(one.at_s, one.input_tokens, one.output_tokens) for one in trace.arrivals][:2] == [
        (0, 700, 5),
        (0.25, 1100, 6),
    ]
    assert trace.arrivals[3].hash_ids == (1, 3, 5)


def test_burstgpts_times_are_seconds_and_requests_without_an_answer_are_left_out() -> None:
    trace = read_trace(FILES / "burstgpt.csv")
    assert (trace.format, trace.left_out) == ("burstgpt", 1)
    assert [(one.at_s, one.input_tokens, one.output_tokens) for one in trace.arrivals] == [
        (0, 472, 18), (40, 1087, 230), (113, 417, 276),
    ]  # fmt: skip


def test_azures_times_of_day_are_read_to_the_microsecond_and_over_midnight() -> None:
    trace = read_trace(FILES / "azure.csv")
    assert trace.format == "azure"
    assert [one.at_s for one in trace.arrivals] == pytest.approx([0, 4.314579, 4.541977, 20653.31941], abs=1e-5)
    assert trace.arrivals[0].input_tokens == 374


def test_a_zone_and_a_byte_order_mark_do_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(
        "\ufeffTIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2024-05-10 00:00:00.5+00:00,10,2\n2024-05-10 01:00:00.25+01:00,8,2\n"
    )
    assert [one.at_s for one in read_trace(file).arrivals] == [0, 0.25]


@pytest.mark.parametrize(
    ("name", "damage", "told"),
    [
        ("mooncake.jsonl", '{"timestamp": 1, "input_length": 7', "mooncake line"),
        ("mooncake.jsonl", '{"timestamp": 1, "output_length": 7}', "no field 'input_length'"),
        ("mooncake.jsonl", '{"timestamp": "x", "input_length": 7, "output_length": 7}', "could not convert"),
        ("mooncake.jsonl", '{"timestamp": NaN, "input_length": 7, "output_length": 7}', "timestamp is no time"),
        ("mooncake.jsonl", '{"timestamp": 1, "input_length": 7.5, "output_length": 7}', "no number of tokens: 7.5"),
        ("mooncake.jsonl", '{"timestamp": 1, "input_length": -7, "output_length": 7}', "no number of tokens: -7"),
        ("mooncake.jsonl", '{"timestamp": 1, "input_length": true, "output_length": 7}', "is no number: True"),
        ("mooncake.jsonl", '{"timestamp": 1, "input_length": 7, "output_length": 7, "hash_ids": ["a"]}', "hash_ids"),
        ("mooncake.jsonl", "[]", "object was expected"),
        ("burstgpt.csv", "9.0,ChatGPT,,18,490,x", "could not convert"),
        ("burstgpt.csv", "-9.0,ChatGPT,4,18,490,x", "Timestamp is no time"),
        ("burstgpt.csv", "9.0,ChatGPT", "Request tokens is no number: None"),
        ("burstgpt.csv", "9.0,ChatGPT,1e30,18,490,x", "no number of tokens"),
        ("azure.csv", "yesterday,374,44", "TIMESTAMP is no time: 'yesterday'"),
        ("azure.csv", "2023-11-16 18:15:46.68,x,44", "could not convert"),
    ],
)
def test_a_damaged_line_is_named_with_its_number(tmp_path: Path, name: str, damage: str, told: str) -> None:
    lines = (FILES / name).read_text().splitlines()
    file = tmp_path / name
    file.write_text("\n".join([*lines[:2], damage, *lines[2:]]) + "\n")
    with pytest.raises(TaskError, match=f"{name}:3: .*{told}"):
        read_trace(file)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "{}\n", "hello\n", '{"timestamp": 1'])
def test_what_is_no_trace_is_refused_with_the_formats_that_are(tmp_path: Path, text: str) -> None:
    file = tmp_path / "t.txt"
    file.write_text(text)
    with pytest.raises(TaskError, match="no trace that is known"):
        read_trace(file)


def test_a_trace_without_requests_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Timestamp,Request tokens,Response tokens\n1.0,4,0\n")
    with pytest.raises(TaskError, match="holds no request"):
        read_trace(tmp_path / "t.csv")
    with pytest.raises(TaskError, match="no such trace"):
        read_trace(tmp_path / "none.csv")


def test_requests_are_sorted_by_time_and_the_first_n_can_be_taken(tmp_path: Path) -> None:
    lines = (FILES / "mooncake.jsonl").read_text().splitlines()
    (tmp_path / "t.jsonl").write_text("\n".join(reversed(lines)))
    assert [one.at_s for one in read_trace(tmp_path / "t.jsonl", first=3).arrivals] == [0, 0.25, 0.25]


def test_a_prompt_has_the_words_of_its_length_its_time_and_its_answers_length() -> None:
    for name in ("mooncake", "burstgpt", "azure"):
        trace = read_trace(next(FILES.glob(f"{name}.*")))
        for prompt, arrival in zip(prompts_of(name), trace.arrivals, strict=True):
            assert len(words(prompt)) == prompt.input_tokens == arrival.input_tokens
            assert prompt.max_tokens == arrival.output_tokens
            assert prompt.at_s == pytest.approx(arrival.at_s, abs=1e-6)


def test_requests_share_as_many_words_as_they_share_blocks() -> None:
    first, second, short, fourth, again = prompts_of("mooncake")

    def shared(a: Prompt, b: Prompt) -> int:
        pairs = zip(words(a), words(b), strict=False)
        return next((n for n, (x, y) in enumerate(pairs) if x != y), min(len(words(a)), len(words(b))))

    assert BLOCK_TOKENS <= shared(first, second) < BLOCK_TOKENS + 3
    assert 2 * BLOCK_TOKENS <= shared(second, fourth) < 2 * BLOCK_TOKENS + 3
    assert shared(first, short) < 3 and words(short) == words(again)


def test_prompts_of_a_trace_without_blocks_share_nothing() -> None:
    prompts = prompts_of("burstgpt") + prompts_of("azure")
    assert len({tuple(words(prompt)[:2]) for prompt in prompts}) == len(prompts)


def test_speed_divides_times_and_a_cap_cuts_lengths() -> None:
    prompts = prompts_of("mooncake", speed=2.0, cap=100)
    assert [prompt.at_s for prompt in prompts] == [0, 0.125, 0.125, 0.3, 0.45]
    assert max(len(words(prompt)) for prompt in prompts) == 100
    assert all(words(cut) == words(whole)[:100] for cut, whole in zip(prompts, prompts_of("mooncake"), strict=True))


def test_prompts_follow_from_the_seed_and_come_back_from_their_file(tmp_path: Path) -> None:
    prompts = prompts_of("mooncake")
    assert prompts == prompts_of("mooncake") != prompts_of("mooncake", seed=2)
    write_prompts(tmp_path / "w.jsonl", prompts)
    assert read_prompts(tmp_path / "w.jsonl") == prompts


def test_records_give_their_own_arrivals_lengths_and_prompts(tmp_path: Path) -> None:
    asked = [
        Prompt(f"p{n}", ({"role": "user", "content": f"question {n}"},), gold="A", grader="choice") for n in range(3)
    ]
    write_prompts(tmp_path / "w.jsonl", asked)
    made = [
        record(phase="warmup", prompt_id="p0", scheduled_ns=10**9),
        record(prompt_id="p2", scheduled_ns=None, sent_ns=6 * 10**9, prompt_tokens=9, completion_tokens=4),
        record(prompt_id="p1", scheduled_ns=5 * 10**9, sent_ns=7 * 10**9, prompt_tokens=8, completion_tokens=3),
        record(prompt_id="p1", worker="b", sent_ns=10**12, prompt_tokens=8, completion_tokens=3),
        record(prompt_id="p1", status="error", sent_ns=9 * 10**9, error={"kind": "aborted", "message": ""}),
    ]
    file = tmp_path / "requests.jsonl"
    file.write_text("".join(one.to_json_line() for one in made))
    trace = read_trace(file)
    assert [(one.at_s, one.prompt_id, one.output_tokens) for one in trace.arrivals] == [
        (0, "p1", 3), (0, "p1", 3), (1, "p2", 4),
    ]  # fmt: skip
    again = recorded_prompts(tmp_path / "w.jsonl", trace, speed=2.0, cap=None)
    assert again is not None
    assert [(prompt.messages[0]["content"], prompt.at_s, prompt.max_tokens) for prompt in again] == [
        ("question 1", 0, 3), ("question 1", 0, 3), ("question 2", 0.5, 4),
    ]  # fmt: skip
    assert len({prompt.prompt_id for prompt in again}) == 3
    assert not any(prompt.graded or prompt.grader for prompt in again)  # a replay is for speed


def test_records_without_token_counts_have_no_lengths(tmp_path: Path) -> None:
    file = tmp_path / "requests.jsonl"
    file.write_text(record(prompt_tokens=None).to_json_line())
    with pytest.raises(TaskError, match=r"requests\.jsonl:1: .*no token counts"):
        read_trace(file)


def test_the_files_here_are_in_order() -> None:
    for file in FILES.iterdir():
        times = [one.at_s for one in read_trace(file).arrivals]
        assert all(a <= b for a, b in pairwise(times)), file
    assert json.loads((FILES / "mooncake.jsonl").read_text().splitlines()[0])["timestamp"] == 0


@pytest.mark.parametrize(
    ("name", "damage"),
    [("azure.csv", "1" * 140_000 + ",1,1"), ("burstgpt.csv", "1" * 140_000), ("mooncake.jsonl", "[" * 100_000)],
)
def test_a_line_that_no_parser_takes_is_reported_and_no_traceback(tmp_path: Path, name: str, damage: str) -> None:
    file = tmp_path / name
    file.write_text((FILES / name).read_text().rstrip("\n") + "\n" + damage + "\n")
    with pytest.raises(TaskError, match=r":\d+: damaged"):
        read_trace(file)
