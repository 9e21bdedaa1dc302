"""Live figures against the records that they were made of."""

from __future__ import annotations

import random

import numpy as np
import pytest

from load.live_percentiles import EXACT, Distribution
from load.web.figures import Live
from load.web.timeline import KEEP_S, METRICS
from records import Record


def take(live: Live, made: Record, now: float) -> None:
    """What the hooks do with a record."""
    if made.first_token_ns is not None:
        live.first_token(made, now)
        if len(made.chunk_ns) > 1:
            live.inter_token(made, now)
    live.stream_finished(made, now)


def made(at_s: float, *, chunks: int = 5, gap_ms: float = 10.0, ttft_ms: float = 50.0, **fields: object) -> Record:
    sent = int(at_s * 1e9)
    first = sent + int(ttft_ms * 1e6)
    stamps = [first + int(n * gap_ms * 1e6) for n in range(chunks)]
    values: dict[str, object] = {
        "id": "r", "engine": "e", "cell": "c.w", "round": 1, "worker": "local", "user": 0, "seq": 0, "attempt": 1,
        "workload": "w", "prompt_id": "p", "prompt_sha256": "0", "sample": 0, "phase": "measure", "connect_ns": None,
        "scheduled_ns": None, "sent_ns": sent, "first_token_ns": stamps[0], "last_token_ns": stamps[-1],
        "end_ns": stamps[-1], "chunk_ns": stamps, "chunk_chars": [1] * chunks, "completion_tokens": chunks,
    }  # fmt: skip
    return Record.from_dict({**values, **fields})


@pytest.mark.parametrize("count", [1, 2, 999, EXACT])
def test_percentiles_are_exact_up_to_the_limit(count: int) -> None:
    values = [random.Random(count).lognormvariate(3, 1) for _ in range(count)]
    distribution = Distribution()
    for start in range(0, count, 700):
        distribution.add(values[start : start + 700])
    shown = distribution.summary()
    assert shown["exact"]
    for part in (50, 90, 99):
        assert shown[f"p{part}"] == pytest.approx(np.percentile(values, part), rel=1e-12)


def test_beyond_the_limit_percentiles_are_within_a_thousandth_and_say_so() -> None:
    rng = random.Random(8)
    values = [rng.lognormvariate(3, 1) for _ in range(30_000)]
    distribution = Distribution(exact=1000)
    distribution.add(values)
    shown = distribution.summary()
    assert not shown["exact"]
    assert shown["max"] == max(values)
    for part in (50, 90, 99):
        assert shown[f"p{part}"] == pytest.approx(np.percentile(values, part), rel=0.0025)


def test_zero_gaps_are_values_too() -> None:
    distribution = Distribution(exact=2)
    distribution.add([0.0, 0.0, 0.0, 5.0])
    assert distribution.summary()["p50"] == 0.0


def test_nothing_is_none_and_not_zero() -> None:
    shown = Live(0.0).summary()
    assert shown["tokens_per_s"] is None
    assert shown["latency"]["ttft_ms"]["p50"] is None
    assert Live(0.0).seconds.recent()["tokens_per_s"] is None


def test_failed_and_warm_up_requests_are_in_no_latency() -> None:
    live = Live(100.0)
    take(live, made(100.0, phase="warmup"), 100.2)
    take(live, made(100.0, status="error", error={"kind": "aborted", "message": ""}), 100.2)
    shown = live.summary()
    assert all(shown["latency"][name]["n"] == 0 for name in METRICS)
    assert shown["counts"]["warmup"] == 1
    assert shown["errors_by_kind"] == {"aborted": 1}


def test_a_chunk_of_several_tokens_spreads_its_gap_over_them() -> None:
    live = Live(0.0)
    take(live, made(0.0, chunks=3, gap_ms=30.0, chunk_tokens=[1, 3, 3], completion_tokens=7), 0.2)
    latency = live.summary()["latency"]
    assert (latency["itl_ms"]["n"], latency["itl_ms"]["p50"]) == (6, pytest.approx(10.0))
    assert (latency["icl_ms"]["n"], latency["icl_ms"]["p50"]) == (2, pytest.approx(30.0))


def test_chunks_of_unknown_tokens_give_no_itl() -> None:
    live = Live(0.0)
    take(live, made(0.0, chunks=3, completion_tokens=9), 0.2)
    latency = live.summary()["latency"]
    assert latency["itl_ms"]["n"] == 0
    assert latency["icl_ms"]["n"] == 2


def test_tokens_stand_in_the_seconds_in_which_they_came() -> None:
    live = Live(0.0)
    take(live, made(0.0, chunks=4, gap_ms=1000.0, ttft_ms=500.0), 3.51)
    assert live.seconds.columns()["tokens"] == [1, 1, 1, 1]


def test_another_hosts_clock_does_not_move_the_chart() -> None:
    live = Live(0.0)
    take(live, made(5000.0, chunks=4, gap_ms=1000.0, ttft_ms=500.0, worker="far"), 3.51)
    assert sum(live.seconds.columns()["tokens"]) == 4
    assert live.summary()["span_s"] == pytest.approx(3.5)


def test_records_that_come_late_at_first_do_not_shorten_the_test() -> None:
    live = Live(0.0)
    for second in range(10):
        # Each has ended 0.09 s after it was sent; the first two came half a second late.
        take(live, made(float(second)), second + 0.09 + (0.5 if second < 2 else 0.0))
    assert live.summary()["span_s"] == pytest.approx(9.09)
    assert live.summary()["tokens_per_s"] == pytest.approx(50 / 9.09)


def test_memory_stays_bounded_over_hours() -> None:
    live = Live(0.0)
    for second in range(0, 3 * KEEP_S):
        take(live, made(float(second)), second + 0.2)
    series = live.seconds.columns()
    assert len(series["t"]) == KEEP_S
    assert series["t"][-1] == 3 * KEEP_S - 1
    assert sum(second.values is not None for second in live.seconds._kept) <= 12
    assert live.summary()["counts"]["ok"] == 3 * KEEP_S


def test_a_tail_percentile_is_withheld_until_ten_requests_lie_beyond_it() -> None:
    live = Live(0.0)
    for n in range(99):
        take(live, made(n), n + 1.0)
    assert live.summary()["latency"]["ttft_ms"]["p90"] is None
    take(live, made(99), 100.0)
    shown = live.summary()["latency"]
    assert (shown["ttft_ms"]["p90"], shown["ttft_ms"]["p99"]) == (50.0, None)
    # Four gaps of each request are no four requests.
    assert (shown["itl_ms"]["n"], shown["itl_ms"]["requests"], shown["itl_ms"]["p99"]) == (400, 100, None)


def test_itl_and_icl_are_the_same_figures_where_every_event_brings_one_token() -> None:
    one, several = Live(0.0), Live(0.0)
    take(one, made(0), 1.0)
    take(several, made(0, chunk_tokens=[2] * 5, completion_tokens=10), 1.0)
    assert (one.summary()["same_gaps"], several.summary()["same_gaps"]) == (True, False)


def test_turns_of_conversations_have_figures_and_no_rate_of_their_own() -> None:
    live = Live(0.0)
    for at, turn in ((0, 1), (1, 2), (2, 1)):
        take(live, made(at, ttft_ms=50.0 + at, turn=turn, turns=2, conversation="c"), at + 1.0)
    told = [(part["name"], part["ok"], part["ttft_ms_p50"], part["tokens_per_s"]) for part in live.summary()["parts"]]
    assert told == [("turn 1", 2, 51.0, None), ("turn 2", 1, 51.0, None)]


def test_figures_of_a_part_are_those_of_its_requests() -> None:
    live = Live(0.0, lambda record: "late" if record.sent_ns and record.sent_ns >= 10e9 else "early")
    for at in (0, 1, 10):
        take(live, made(at, ttft_ms=50.0 + at), at + 1.0)
    take(live, made(11, status="error", error={"kind": "busy", "message": "m"}), 12.0)
    early, late = live.summary()["parts"]
    assert (early["name"], early["ok"], early["ttft_ms_p50"], early["tokens_per_s"]) == (
        *("early", 2, 50.5),
        pytest.approx(10 / 1.091),
    )
    assert (late["name"], late["ok"], late["errors"], late["ttft_ms_p50"]) == ("late", 1, 1, 60.0)
