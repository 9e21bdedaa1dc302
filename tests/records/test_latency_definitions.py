"""The latencies of one request by their definitions, on stamps small enough to check by hand."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from records import Record
from records.latency_definitions import Withheld, icl_ms, itl_ms, timing
from scoring.speed.latency import cell_figures
from tests.scoring.hand import capture_of, request


def stream(*at_ms: float, tokens: int | None, **fields: Any) -> Record:
    """A request sent at 0 whose events arrive at `at_ms`."""
    record = request(0, max(at_ms, default=0) + 1, chunks_ms=at_ms, tokens=0, **fields)
    record.completion_tokens = tokens
    return record


def test_each_latency_by_its_definition() -> None:
    record = stream(50, 60, 80, 140, tokens=4, first_answer_ns=60_000_000, scheduled_ms=-5)
    found = timing(record)
    assert (found.ttft_ms, found.ttfa_ms, found.e2e_ms, found.tpot_ms) == (50, 60, 140, 30)
    assert (found.ttft_scheduled_ms, found.e2e_scheduled_ms) == (55, 145)
    assert found.withheld is None
    assert icl_ms(record) == itl_ms(record) == [10, 20, 60]


def test_one_event_with_many_tokens_has_no_tpot_and_no_gaps() -> None:
    record = stream(400, tokens=64)
    found = timing(record)
    assert (found.ttft_ms, found.e2e_ms, found.tpot_ms, found.withheld) == (400, 400, None, Withheld.NO_STREAM)
    assert itl_ms(record) is None
    assert icl_ms(record) == []


def test_a_whole_answer_within_a_millisecond_is_no_stream() -> None:
    burst = stream(*(400 + n * 0.01 for n in range(64)), tokens=64)
    assert timing(burst).withheld is Withheld.NO_STREAM
    assert itl_ms(burst) is None
    assert icl_ms(burst) == []
    assert timing(stream(400, 401, tokens=2)).tpot_ms == 1


@pytest.mark.parametrize(
    ("ttft_ms", "interval_ms", "tpot_ms"),
    [
        (1660, 0.1, None),  # 64 tokens of 20 ms, held back and written in 6.3 ms
        (1660, 0.24, None),
        (1660, 0.26, 0.26),
        (1660, 0.5, 0.5),  # the fastest engines, behind a long prompt
        (20, 0.1, 0.1),  # the first token came early: nothing was held back
    ],
)
def test_a_held_back_answer_has_no_tpot_and_a_fast_engine_keeps_its_own(
    ttft_ms: float, interval_ms: float, tpot_ms: float | None
) -> None:
    record = stream(*(ttft_ms + n * interval_ms for n in range(64)), tokens=64)
    assert timing(record).tpot_ms == (None if tpot_ms is None else pytest.approx(tpot_ms))
    assert timing(record).withheld is (Withheld.NO_STREAM if tpot_ms is None else None)
    assert (itl_ms(record) is None) is (tpot_ms is None)


def test_hidden_reasoning_is_no_held_back_answer() -> None:
    # 2,000 hidden tokens take the time to the first shown one; the 8 shown ones are streamed 10 ms apart.
    record = stream(*range(9000, 9080, 10), tokens=2008, reasoning_tokens=2000)
    assert timing(record).tpot_ms == 10


def test_three_tokens_of_one_step_are_no_held_back_answer() -> None:
    assert timing(stream(400, 400.6, 401.2, tokens=3)).tpot_ms == pytest.approx(0.6)


@pytest.mark.parametrize("at_ms", [(10, 20, 45), (5, 20, 30), (10, 30, 20)])
def test_events_after_the_end_before_the_send_or_backwards_are_out_of_order(at_ms: tuple[int, ...]) -> None:
    record = request(6, 40, chunks_ms=(10, 20, 30), tokens=3)
    assert timing(record).withheld is None
    record.chunk_ns = [int(at * 1e6) for at in at_ms]
    assert timing(record).withheld is Withheld.OUT_OF_ORDER
    assert timing(record).ttft_ms is None


def test_one_event_of_unknown_tokens_may_be_one_token_and_two_at_once_are_no_stream() -> None:
    assert timing(stream(400, tokens=None)).withheld is Withheld.TOKENS_UNKNOWN
    assert timing(stream(400, 400.5, tokens=None)).withheld is Withheld.NO_STREAM


def test_tpot_divides_by_the_tokens_after_the_first_event_where_they_are_known() -> None:
    # A token every 5 ms, sixteen to an event: only 48 of 63 intervals lie between the first and the last stamp.
    record = stream(80, 160, 240, 320, tokens=64, chunk_tokens=[16] * 4)
    assert timing(record).tpot_ms == 5
    assert itl_ms(record) == [5.0] * 48
    assert icl_ms(record) == [80, 80, 80]


def test_tpot_and_itl_are_unknown_where_events_hide_tokens() -> None:
    record = stream(80, 160, 240, 320, tokens=64)
    assert (timing(record).tpot_ms, timing(record).withheld) == (None, Withheld.BURSTS)
    assert itl_ms(record) is None
    assert icl_ms(record) == [80, 80, 80]


@pytest.mark.parametrize(("events", "tokens", "known"), [(90, 100, True), (88, 100, False), (8, 9, True), (9, 8, True)])
def test_an_event_is_a_token_within_a_tenth(events: int, tokens: int, *, known: bool) -> None:
    assert (timing(stream(*range(10, 10 + 10 * events, 10), tokens=tokens)).tpot_ms is not None) is known


def test_events_that_share_an_arrival_have_no_time_between_them() -> None:
    # Eight single-token events, four to a read: 4 tokens came after the first arrival.
    record = stream(20, 20, 20, 20, 60, 60, 60, 60, tokens=8)
    assert timing(record).tpot_ms == 10
    assert itl_ms(record) == [10.0] * 4
    assert icl_ms(record) == [40]


def test_white_space_before_the_first_token_is_not_counted_as_one() -> None:
    record = stream(1, 400, 420, 440, 460, tokens=4, first_token_ns=400_000_000)
    found = timing(record)
    assert (found.ttft_ms, found.tpot_ms) == (400, 20)


def test_hidden_reasoning_tokens_are_left_out() -> None:
    record = stream(*range(1000, 1080, 10), tokens=60, reasoning_tokens=52)
    assert timing(record).tpot_ms == 10
    # Thoughts inside the text are not hidden: the events show all 60 tokens.
    assert timing(stream(*range(1000, 1600, 10), tokens=60, reasoning_tokens=52)).tpot_ms == 10
    assert timing(stream(*range(1000, 1080, 10), tokens=60, reasoning_tokens=30)).withheld is Withheld.BURSTS


def test_several_choices_have_a_ttft_and_no_tpot() -> None:
    record = stream(10, 20, 30, 40, tokens=4, choices=2)
    assert (timing(record).ttft_ms, timing(record).tpot_ms) == (10, None)
    assert timing(record).withheld is Withheld.SEVERAL_CHOICES
    assert itl_ms(record) is None


@pytest.mark.parametrize("tokens", [None, 1])
def test_without_two_tokens_there_is_no_tpot(tokens: int | None) -> None:
    assert timing(stream(10, 20, tokens=tokens)).tpot_ms is None


@pytest.mark.parametrize(
    "change",
    [
        {"sent_ns": 60_000_000},
        {"last_token_ns": 40_000_000},
        {"chunk_ns": [50_000_000, 90_000_000, 80_000_000]},
        {"end_ns": 70_000_000},
    ],
)
def test_stamps_out_of_order_give_no_latency(change: dict[str, Any]) -> None:
    record = stream(50, 60, 80, tokens=3)
    for name, value in change.items():
        setattr(record, name, value)
    found = timing(record)
    assert (found.ttft_ms, found.e2e_ms, found.tpot_ms) == (None, None, None)
    assert found.withheld is Withheld.OUT_OF_ORDER
    assert icl_ms(record) == []


def test_counts_that_stop_after_the_first_event_are_no_counts() -> None:
    record = stream(10, 20, 30, 40, tokens=4, chunk_tokens=[4, 0, 0, 0])
    assert timing(record).tpot_ms == 10


def test_a_request_without_tokens_has_nothing() -> None:
    record = stream(tokens=None)
    assert timing(record).ttft_ms is None
    assert timing(record).withheld is None


def test_the_figures_of_a_cell_are_those_of_its_records(tmp_path: Path) -> None:
    rng = random.Random(7)
    records = []
    for number in range(60):
        events = rng.randint(1, 12)
        at = sorted(rng.choice((10, 20, 30, 30.5, 40, 55, 90, 90)) for _ in range(events))
        tokens = events + rng.randint(-1, 2) if rng.random() < 0.7 else 4 * events
        known = [rng.randint(0, 3) for _ in range(events)] if rng.random() < 0.3 else None
        record = stream(*at, tokens=max(tokens, 1), chunk_tokens=known, choices=rng.choice((1, 1, 1, 2)))
        record.id, record.seq = str(number), number
        records.append(record)
    values = cell_figures(capture_of(tmp_path, records)).values
    tpot = [found for record in records if (found := timing(record).tpot_ms) is not None]
    itl = [gap for record in records for gap in itl_ms(record) or []]
    icl = [gap for record in records for gap in icl_ms(record)]
    assert len(itl) > 30
    assert values["tpot_ms_mean"] == pytest.approx(np.mean(tpot))
    assert values["itl_ms_mean"] == pytest.approx(np.mean(itl))
    assert values["icl_ms_mean"] == pytest.approx(np.mean(icl))
