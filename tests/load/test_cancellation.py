"""Clients that go away in the middle of an answer, against the pacing server's own log."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from load.cancellation import Cancellation
from load.schedule.tickets import Ticket
from records import Phase
from scoring.speed.latency import cell_figures
from tests.load.load import prompts_file, run
from tests.load.web import pacing
from tests.scoring.hand import capture_of, request
from workloads import Prompt


def ticket(number: int, sample: int = 0, phase: Phase = Phase.MEASURE) -> Ticket:
    return Ticket(Prompt(f"p{number}", ({"role": "user", "content": "hi"},)), sample, phase)


def test_the_share_is_met_and_the_choice_depends_on_seed_prompt_and_sample_alone() -> None:
    rule = Cancellation(0.25, 4, seed=1)
    chosen = [number for number in range(4000) if rule.of(ticket(number)) is not None]
    assert 900 < len(chosen) < 1100
    again = Cancellation(0.25, 9, seed=1)
    assert chosen == [number for number in range(4000) if again.of(ticket(number)) is not None]
    other = Cancellation(0.25, 4, seed=2)
    assert chosen != [number for number in range(4000) if other.of(ticket(number)) is not None]


def test_warm_up_and_a_share_of_nothing_are_never_cancelled() -> None:
    assert Cancellation(1.0, 4, seed=1).of(ticket(1, phase=Phase.WARMUP)) is None
    assert Cancellation(0.0, 4, seed=1).of(ticket(1)) is None


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_cancelled_requests_end_after_their_tokens_and_are_no_errors(tmp_path: Path, endpoint: str) -> None:
    prompts = prompts_file(tmp_path / "prompts.jsonl", [f"question {n}" for n in range(24)])
    options = ["--prompts", str(prompts), "--max-tokens", "12", "--cancel-share", "0.4", "--cancel-after-tokens", "5"]
    with pacing("--ttft-ms", "20", "--interval-ms", "10") as url:
        outcome = run("concurrent_4", url, tmp_path / "out", *options, "--endpoint", endpoint)
        truth = requests.get(f"{url}/requests", timeout=5).json()
    assert outcome.code == 0, outcome.stderr[-2000:]
    rule = Cancellation(0.4, 5, seed=1)
    for record in outcome.measured:
        cancelled = rule.of(ticket(int(record.prompt_id[1:]))) is not None
        assert record.status == ("cancelled" if cancelled else "ok"), record.error
        # A read that comes late may hold another token.
        assert len(record.chunk_ns) in ((5, 6, 7) if cancelled else (12,))
        assert record.error is None
    counts = outcome.scenario["counts"]
    assert (counts["ok"] + counts["cancelled"], counts["error"]) == (24, 0)
    assert 0 < counts["cancelled"] < 24
    assert truth["unfinished"] == counts["cancelled"]
    assert "cancelled (TTFT only)" not in outcome.stderr


def test_answers_that_are_graded_are_not_cancelled(tmp_path: Path) -> None:
    with pacing() as url:
        outcome = run("single", url, tmp_path, "--prompts", "arithmetic", "--cancel-share", "0.5")
    assert outcome.code == 2
    assert "cannot be graded" in outcome.stderr


def test_a_cancelled_request_gives_its_ttft_and_nothing_else(tmp_path: Path) -> None:
    whole = [request(100.0 * n, 100.0 * n + 90, chunks_ms=[100.0 * n + at for at in (30, 60, 90)]) for n in range(4)]
    gone = request(400, 460, chunks_ms=[450, 460])
    gone.status, gone.finish_reason, gone.completion_tokens = "cancelled", None, None
    figures = cell_figures(capture_of(tmp_path, [*whole, gone]))
    assert figures.counts["ttft_ms_p50"] == 5
    assert figures.counts["tpot_ms_p50"] == figures.counts["e2e_ms_p50"] == 4
    assert figures.values["ttft_ms_mean"] == pytest.approx((4 * 30 + 50) / 5)
