"""Plain `locust` against a llama-server that a person started: what its records say is what the server says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest
import requests

from records import Record
from tests.engines.by_hand import llama_server
from tests.load.load import Outcome, finish, prompts_file, start
from workloads import load_prompts

pytestmark = [pytest.mark.engines, pytest.mark.timeout(3300)]

REQUESTS, WARMUP, TOKENS = 16, 4, 64


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tmp_path_factory.mktemp("server") / "server.log") as url:
        yield url


@pytest.fixture(scope="module")
def outcome(url: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The command of the README, once for all tests of its records."""
    options = ["--requests", str(REQUESTS), "--warmup", str(WARMUP), "--prompts", "arithmetic"]
    return ask(url, tmp_path_factory.mktemp("capture"), *options, "--max-tokens", str(TOKENS))


def ask(url: str, folder: Path, *options: str) -> Outcome:
    return finish(start("concurrent_4", url, folder, *options), folder, timeout_s=900)


def most_in_flight(records: list[Record]) -> int:
    """From the stamps alone; at one instant an end comes before a start."""
    events = [(record.sent_ns or 0, 1) for record in records] + [(record.end_ns, -1) for record in records]
    now = most = 0
    for _, step in sorted(events):
        now += step
        most = max(most, now)
    return most


def metric(url: str, name: str) -> int:
    found = re.search(rf"^llamacpp:{name} (\S+)$", requests.get(f"{url}/metrics", timeout=10).text, re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


def test_it_ends_by_itself_after_exactly_what_was_asked(outcome: Outcome) -> None:
    assert outcome.code == 0, outcome.stderr[-2000:]
    assert [record.error for record in outcome.records if not record.ok] == []
    assert len(outcome.measured) == REQUESTS
    assert len(outcome.records) == REQUESTS + WARMUP
    assert outcome.scenario["complete"] is True


def test_four_are_in_flight_and_never_more(outcome: Outcome) -> None:
    assert most_in_flight(outcome.measured) == 4
    assert most_in_flight(outcome.records) == 4


def test_no_warm_up_prompt_is_measured(outcome: Outcome) -> None:
    warmup = {record.prompt_sha256 for record in outcome.records if not record.measured}
    measured = {record.prompt_sha256 for record in outcome.measured}
    assert len(warmup) == WARMUP and len(measured) == REQUESTS
    assert not warmup & measured
    assert max(r.end_ns for r in outcome.records if not r.measured) <= min(r.sent_ns or 0 for r in outcome.measured)


def test_token_counts_are_those_of_the_server(outcome: Outcome, url: str) -> None:
    """Three witnesses: usage of the stream, the counters of the whole server, usage of the same prompt asked again."""
    for record in outcome.records:
        assert record.token_source == "usage"
        assert record.server_timings is not None
        assert record.completion_tokens == record.server_timings["predicted_n"]
        assert record.prompt_tokens == record.server_timings["prompt_n"] + record.server_timings["cache_n"]
    assert metric(url, "tokens_predicted_total") == sum(record.completion_tokens or 0 for record in outcome.records)
    texts = {prompt.prompt_id: prompt.messages for prompt in load_prompts("arithmetic", seed=1)}
    for record in outcome.measured[:4]:
        body = {"messages": list(texts[record.prompt_id]), "max_tokens": 1, "temperature": 0}
        usage = requests.post(f"{url}/v1/chat/completions", json=body, timeout=60).json()["usage"]
        assert usage["prompt_tokens"] == record.prompt_tokens


def test_tpot_is_that_of_the_servers_own_clock(outcome: Outcome) -> None:
    """Within 2% for each answer of 64 tokens. The server divides the time since its first token by n, not by n - 1."""
    off = []
    for record in outcome.measured:
        if record.completion_tokens != TOKENS:
            continue
        assert record.server_timings and record.first_token_ns and record.last_token_ns
        ours = (record.last_token_ns - record.first_token_ns) / 1e6 / (TOKENS - 1)
        theirs = record.server_timings["predicted_ms"] / record.server_timings["predicted_n"] * TOKENS / (TOKENS - 1)
        off.append(ours / theirs - 1)
    print(f"TPOT against the server's: {len(off)} answers, median {median(off):+.3%}, worst {max(off, key=abs):+.3%}")
    assert len(off) >= REQUESTS // 2
    assert all(abs(each) <= 0.02 for each in off)


def test_a_measured_request_that_the_server_refuses_makes_exit_code_1(url: str, tmp_path: Path) -> None:
    prompts = prompts_file(tmp_path / "mine.jsonl", ["Say yes.", "Say no. " * 2000, "Say maybe."])
    outcome = ask(url, tmp_path / "out", "--prompts", str(prompts), "--max-tokens", "4")
    assert outcome.code == 1
    assert [(record.prompt_id, record.ok) for record in sorted(outcome.measured, key=lambda r: r.prompt_id)] == [
        ("p0", True), ("p1", False), ("p2", True),
    ]  # fmt: skip
    assert outcome.kinds == ["http_status"]
    assert outcome.scenario["complete"] is True


def test_the_completions_endpoint_streams_text_with_times_and_usage(url: str, tmp_path: Path) -> None:
    prompts = prompts_file(tmp_path / "prompts.jsonl", [f"Story {n}: once upon a time" for n in range(8)])
    options = ["--prompts", str(prompts), "--endpoint", "completions", "--max-tokens", "12", "--fixed-length"]
    outcome = ask(url, tmp_path / "out", *options)
    assert outcome.code == 0, outcome.stderr[-2000:]
    assert {record.completion_tokens for record in outcome.measured} == {12}
    assert all(record.ok and len(record.chunk_ns) >= 11 and record.text for record in outcome.measured)
    # Without a chat template the prompt is its text: some ten tokens, and no template around them.
    assert all(4 < (record.prompt_tokens or 0) < 16 for record in outcome.measured)


def test_a_cancelled_request_frees_the_slot_of_a_real_server(url: str, tmp_path: Path) -> None:
    prompts = prompts_file(tmp_path / "prompts.jsonl", [f"Story {n}: once upon a time" for n in range(16)])
    options = ["--prompts", str(prompts), "--max-tokens", "48", "--fixed-length"]
    before = metric(url, "tokens_predicted_total")
    outcome = ask(url, tmp_path / "out", *options, "--cancel-share", "0.5", "--cancel-after-tokens", "4")
    made = metric(url, "tokens_predicted_total") - before
    assert outcome.code == 0, outcome.stderr[-2000:]
    cancelled = [record for record in outcome.measured if record.status == "cancelled"]
    assert 0 < len(cancelled) < 16
    assert all(4 <= len(record.chunk_ns) <= 8 and record.error is None for record in cancelled)
    # It does not go on for clients that are gone: all 16 answers would be 768 tokens.
    assert made < 48 * (16 - len(cancelled)) + 16 * len(cancelled)


def test_a_capacity_is_found_on_a_real_server(url: str, tmp_path: Path) -> None:
    options = ["--prompts", "arithmetic", "--max-tokens", "8", "--fixed-length", "--objectives", "ttft_ms=600000"]
    options += ["--end", "2", "--pass-share", "0.5", "--time-limit", "300"]
    outcome = finish(start("capacity", url, tmp_path, *options), tmp_path, timeout_s=900)
    assert outcome.code == 0, outcome.stderr[-2000:]
    found = outcome.scenario["capacity"]
    assert found["at_least_end"] and found["complete"]
    assert [level["verdict"] for level in found["levels"]] == ["passes", "passes"]
