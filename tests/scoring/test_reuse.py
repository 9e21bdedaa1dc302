"""What could have come from a cache, beside what did: prefixes by plan, prompts asked again, turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from records import Record
from scoring.speed.latency import cell_figures
from scoring.speed.reuse import add_reuse, reuse_rows, ttft_follows
from scoring.speed.turns import add_turn_figures, conversation_rows
from tests.scoring.hand import capture_of, request
from workloads import Prompt


def asked(number: int, prompt_id: str, *, tokens: int = 100, cached: int | None = 0, ttft_ms: float = 50) -> Record:
    """One request a second, of a text of its own."""
    sent = 1000.0 * number
    return request(
        sent, sent + 500, chunks_ms=[sent + ttft_ms, sent + 500], prompt_id=prompt_id,
        prompt_sha256=f"{prompt_id:0>64}", prompt_tokens=tokens, cached_tokens=cached,
    )  # fmt: skip


def turn(number: int, conversation: str, place: int, tokens: int, **more: object) -> Record:
    record = asked(number, f"{conversation}/{place}", tokens=tokens)
    record.conversation, record.turn, record.turns = conversation, place, 3
    for name, value in more.items():
        setattr(record, name, value)
    return record


def test_a_planned_prefix_is_reusable_from_its_second_request_on(tmp_path: Path) -> None:
    groups = [0, 1, 0, None, 1, 0]
    prompts = [
        Prompt(f"p{n}", (), prefix_group=g, prefix_tokens=None if g is None else 60) for n, g in enumerate(groups)
    ]
    capture = capture_of(tmp_path, [asked(n, f"p{n}", cached=(0, 0, 60, 0, 48, 60)[n]) for n in range(6)])
    add_reuse(capture, prompts)
    assert capture.requests["reusable_tokens"].tolist() == [0, 0, 60, 0, 60, 60]
    [row] = reuse_rows("c", "w", "e", [(1, {}, cell_figures(capture))])
    assert (row["turn"], row["requests"], row["planned"], row["achieved"]) == (None, 6, 180 / 600, 168 / 600)


def test_requests_that_are_in_flight_together_cannot_reuse_each_other(tmp_path: Path) -> None:
    prompts = [Prompt(f"p{n}", (), prefix_group=0, prefix_tokens=60) for n in range(2)]
    both = [asked(0, "p0", ttft_ms=400), asked(0, "p1")]
    both[1].sent_ns = (both[1].sent_ns or 0) + 10_000_000
    capture = capture_of(tmp_path, both)
    add_reuse(capture, prompts)
    assert capture.requests["reusable_tokens"].tolist() == [0, 0]


def test_a_prompt_that_is_asked_again_could_come_from_the_cache(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, [asked(0, "p"), asked(1, "p"), asked(2, "q")])
    add_reuse(capture, [])
    assert capture.requests["reusable_tokens"].tolist() == [0, 99, 0]


@pytest.mark.parametrize(("carry", "second"), [("fixed", 100), ("real", 102)])
def test_a_turn_can_reuse_the_one_before_and_a_real_answer_too(tmp_path: Path, carry: str, second: int) -> None:
    talk = [turn(0, "a", 1, 100), turn(1, "a", 2, 200), turn(2, "b", 1, 90), turn(3, "a", 3, 300)]
    capture = capture_of(tmp_path, talk, carry=carry)
    add_reuse(capture, [])
    assert capture.requests["reusable_tokens"].tolist() == [0, second, 0, second + 100]


def test_where_usage_is_missing_nobody_knows_what_could_be_reused(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, [turn(0, "a", 1, 100, prompt_tokens=None), turn(1, "a", 2, 200)])
    add_reuse(capture, [])
    assert capture.requests["reusable_tokens"].isna().tolist() == [False, True]


def test_conversations_are_counted_by_how_they_end_and_the_turns_have_figures(tmp_path: Path) -> None:
    error = {"kind": "aborted", "message": "made by a test"}
    talk = [turn(n, "a", n + 1, 100, first_token_ns=(1000 * n + 10 * (n + 1)) * 10**6) for n in range(3)]
    talk += [
        turn(3, "b", 1, 100, first_token_ns=(3000 + 30) * 10**6),
        turn(4, "b", 2, 100, status="error", error=error),
    ]
    talk += [turn(5, "c", 1, 100, first_token_ns=(5000 + 20) * 10**6)]
    capture = capture_of(tmp_path, talk)
    add_reuse(capture, [])
    figures = cell_figures(capture)
    add_turn_figures(figures)
    [row] = conversation_rows("c", "e", [(1, figures)])
    assert {key: row[key] for key in ("conversations", "complete", "failed", "turns")} == {
        "conversations": 3, "complete": 1, "failed": 1, "turns": 6,
    }  # fmt: skip
    told = {name: figures.values.get(f"ttft_turn_{name}_ms_p50") for name in ("1", "2", "last", "5")}
    assert told == {"1": 20.0, "2": 20.0, "last": 30.0, "5": None}


@pytest.mark.parametrize(("reuses", "said"), [(True, "its new tokens only"), (False, "the whole prompt")])
def test_without_cached_tokens_ttft_says_what_was_computed(tmp_path: Path, *, reuses: bool, said: str) -> None:
    talk = []
    for n in range(24):
        place, own = n % 3 + 1, 100 + 17 * (n % 5)
        tokens = 200 * place + own
        computed = own + 200 if reuses else tokens
        talk.append(turn(n, f"c{n // 3}", place, tokens, first_token_ns=round((1000 * n + computed / 5) * 10**6)))
        talk[-1].cached_tokens = None
    capture = capture_of(tmp_path, talk)
    add_reuse(capture, [])
    capture.requests["reusable_tokens"] = [0.0 if r.turn == 1 else 200.0 * ((r.turn or 1) - 1) for r in talk]
    assert said in (ttft_follows(cell_figures(capture).good) or "")
