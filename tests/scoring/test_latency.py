"""Latencies and rates by their definitions, on requests small enough to check by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scoring.speed.latency import CellFigures, cell_figures
from scoring.speed.series import cell_series
from tests.builders import fail
from tests.scoring.hand import capture_of, request


def figures_of(tmp_path: Path, *rows: object, **asked: object) -> CellFigures:
    return cell_figures(capture_of(tmp_path, list(rows), **asked))  # type: ignore[arg-type]


def test_each_latency_by_its_definition(tmp_path: Path) -> None:
    row = request(10, 160, chunks_ms=[60, 70, 90, 150], tokens=4, first_answer_ns=70_000_000)
    values = figures_of(tmp_path, row).values
    assert values["ttft_ms_p50"] == pytest.approx(50)
    assert values["ttfa_ms_p50"] == pytest.approx(60)
    assert values["e2e_ms_p50"] == pytest.approx(140)
    assert values["tpot_ms_p50"] == pytest.approx(90 / 3)
    assert values["icl_ms_p50"] == pytest.approx(20)
    assert values["itl_ms_mean"] == pytest.approx(30)


def test_the_end_of_the_stream_is_not_the_last_token(tmp_path: Path) -> None:
    assert figures_of(tmp_path, request(0, 500, chunks_ms=[100, 200])).values["e2e_ms_p50"] == pytest.approx(200)


def test_a_request_of_one_token_has_no_tpot(tmp_path: Path) -> None:
    found = figures_of(tmp_path, request(0, 100, chunks_ms=[100], tokens=1))
    assert found.values["tpot_ms_p50"] is None
    assert found.counts["tpot_ms_p50"] == 0


def test_tpot_counts_the_tokens_after_the_first_chunk(tmp_path: Path) -> None:
    found = figures_of(tmp_path, request(0, 100, chunks_ms=[20, 60, 100], tokens=9, chunk_tokens=[1, 4, 4]))
    assert found.values["tpot_ms_p50"] == pytest.approx(10)


def test_tpot_is_withheld_where_chunks_hide_tokens(tmp_path: Path) -> None:
    found = figures_of(tmp_path, request(0, 100, chunks_ms=[20, 60, 100], tokens=9))
    assert found.values["tpot_ms_p50"] is None


def test_itl_spreads_a_gap_over_the_tokens_it_brought(tmp_path: Path) -> None:
    row = request(0, 100, chunks_ms=[20, 60, 100], tokens=6, chunk_tokens=[1, 4, 1])
    found = figures_of(tmp_path, row)
    # Four gaps of 10 ms and one of 40 ms.
    assert found.values["itl_ms_p50"] == pytest.approx(10)
    assert found.values["itl_ms_mean"] == pytest.approx(80 / 5)
    assert found.values["icl_ms_mean"] == pytest.approx(40)


def test_itl_is_not_known_where_chunks_hide_tokens(tmp_path: Path) -> None:
    found = figures_of(tmp_path, request(0, 100, chunks_ms=[20, 60, 100], tokens=9))
    assert found.values["itl_ms_p50"] is None
    assert found.values["icl_ms_p50"] == pytest.approx(40)


def test_an_end_token_that_was_counted_and_not_sent_does_not_hide_itl(tmp_path: Path) -> None:
    found = figures_of(tmp_path, request(0, 100, chunks_ms=[20, 60, 100], tokens=4))
    assert found.values["itl_ms_p50"] == pytest.approx(40)


def test_gaps_never_reach_over_two_requests(tmp_path: Path) -> None:
    rows = [request(0, 30, chunks_ms=[20, 30]), request(1000, 1030, chunks_ms=[1020, 1030])]
    assert figures_of(tmp_path, *rows).values["icl_ms_p99"] is None  # below 1,000 requests
    assert figures_of(tmp_path, *rows).values["icl_ms_mean"] == pytest.approx(10)


def test_a_request_without_chunks_between_others_shifts_no_gap(tmp_path: Path) -> None:
    empty = request(40, 50, chunks_ms=[])
    fail(empty)
    rows = [request(0, 30, chunks_ms=[20, 30]), empty, request(60, 90, chunks_ms=[70, 90])]
    assert figures_of(tmp_path, *rows).values["icl_ms_mean"] == pytest.approx(15)


def test_errors_and_warmup_are_in_no_latency_figure(tmp_path: Path) -> None:
    bad = request(200, 9000, chunks_ms=[8000, 9000])
    fail(bad)
    rows = [request(0, 50, phase="warmup"), request(100, 150, chunks_ms=[120, 150]), bad]
    found = figures_of(tmp_path, *rows)
    assert found.values["ttft_ms_mean"] == pytest.approx(20)
    assert found.values["icl_ms_mean"] == pytest.approx(30)
    assert found.counts["ttft_ms_p50"] == 1
    assert found.samples["tokens"].sum() == 2


def test_drain_requests_keep_their_latencies(tmp_path: Path) -> None:
    rows = [request(0, 50), request(51, 100), request(101, 1000, phase="drain")]
    assert figures_of(tmp_path, *rows).counts["e2e_ms_p50"] == 3


def test_percentiles_are_interpolated(tmp_path: Path) -> None:
    rows = [request(i * 100, i * 100 + 10 + i % 10) for i in range(100)]
    values = figures_of(tmp_path, *rows).values
    assert values["ttft_ms_p50"] == pytest.approx(14.5)
    assert values["ttft_ms_p90"] == pytest.approx(np.percentile(np.arange(100) % 10 + 10, 90))


@pytest.mark.parametrize(("percent", "needed"), [(90, 100), (95, 200), (99, 1000)])
def test_a_tail_percentile_needs_ten_requests_beyond_it(tmp_path: Path, percent: int, needed: int) -> None:
    for name in ("enough", "fewer"):
        (tmp_path / name).mkdir()
    rows = [request(i, i + 0.5) for i in range(needed)]
    assert figures_of(tmp_path / "enough", *rows).values[f"ttft_ms_p{percent}"] == pytest.approx(0.5)
    assert figures_of(tmp_path / "fewer", *rows[1:]).values[f"ttft_ms_p{percent}"] is None


def test_tokens_count_by_the_share_of_their_requests_time_inside_the_window(tmp_path: Path) -> None:
    rows = [
        request(0, 400, tokens=4, user=0),
        request(150, 450, tokens=3, user=1),
        request(401, 800, tokens=2, user=0),
    ]
    found = figures_of(tmp_path, *rows, users=2)
    # Two are in flight from 150 to 450 ms: 250 of 400 ms, all of 300 ms, and 49 of 399 ms lie there.
    assert found.values["output_tok_s"] == pytest.approx((4 * 250 / 400 + 3 + 2 * 49 / 399) / 0.3)
    assert found.values["output_tok_s_whole"] == pytest.approx(9 / 0.8)


def test_throughput_does_not_depend_on_how_an_engine_groups_its_tokens(tmp_path: Path) -> None:
    """Equal engines, 4 in flight, 12 requests of 540 ms: one streams 64 events, the other sends one at the end."""
    rates = {}
    for name, stamps in (("streamed", [200 + i * 340 / 63 for i in range(64)]), ("one event", [540.0])):
        (tmp_path / name).mkdir()
        rows = []
        for n in range(12):
            at = 541 * (n // 4) + 3 * (n % 4)
            rows.append(request(at, at + 540, chunks_ms=[at + ms for ms in stamps], tokens=64, user=n % 4))
        rates[name] = figures_of(tmp_path / name, *rows, users=4).values["output_tok_s"]
    assert rates["streamed"] == pytest.approx(rates["one event"], rel=0.005)
    assert rates["streamed"] == pytest.approx(4 * 64 / 0.54, rel=0.01)


@pytest.mark.parametrize("per_event", [1, 4])
def test_requests_that_wait_in_a_queue_add_nothing_to_the_throughput(tmp_path: Path, per_event: int) -> None:
    """One slot, 4 in flight: requests of 16 tokens, one by one in 500 ms each: 32 tok/s, 2 requests per second."""
    rows = []
    for n in range(12):
        begins = 500 * n
        sent = max(0, begins - 3 * 500)
        stamps = [begins + 500 / 16 * (i + 1) for i in range(16)][per_event - 1 :: per_event]
        tokens = [per_event] * len(stamps)
        rows.append(request(sent, begins + 500, chunks_ms=stamps, chunk_tokens=tokens, tokens=16, user=n % 4))
    values = figures_of(tmp_path, *rows, users=4).values
    assert values["output_tok_s"] == pytest.approx(32, rel=0.03)
    assert values["requests_s"] == pytest.approx(2, rel=0.03)


def test_the_curve_of_tokens_spreads_them_over_chunks_by_chunk_tokens_where_known(tmp_path: Path) -> None:
    told = request(0, 400, chunks_ms=[100, 400], tokens=10, chunk_tokens=[9, 1])
    for row, first in ((told, 9), (replace(told, chunk_tokens=None), 5)):
        capture = capture_of(tmp_path, [row])
        tokens = cell_series(capture, cell_figures(capture))["tokens"]
        counts = np.array(tokens["tok_s"]) * tokens["bin_s"]
        assert counts[50] == pytest.approx(first, rel=1e-3)
        assert counts[-1] == pytest.approx(10 - first, rel=1e-3)


def test_throughput_is_not_known_where_an_answers_tokens_are_not(tmp_path: Path) -> None:
    rows = [request(0, 100), request(101, 200)]
    rows[1].completion_tokens = None
    values = figures_of(tmp_path, *rows).values
    assert values["output_tok_s"] is None
    assert values["output_tok_s_whole"] is None
    assert values["requests_s"] is not None


def test_a_request_half_inside_the_window_is_half_a_request(tmp_path: Path) -> None:
    rows = [request(0, 400, user=0), request(200, 600, user=1)]
    found = figures_of(tmp_path, *rows, users=2)
    assert found.values["requests_s"] == pytest.approx(1.0 / 0.2)


def test_goodput_counts_only_requests_that_met_every_objective(tmp_path: Path) -> None:
    rows = [
        request(0, 100, chunks_ms=[20, 100]),
        request(101, 200, chunks_ms=[190, 200]),
        request(201, 300, chunks_ms=[220, 300]),
    ]
    found = cell_figures(capture_of(tmp_path, rows), {"ttft_ms": 50.0, "tpot_ms": None, "e2e_ms": 100.0})
    assert found.values["goodput_s"] == pytest.approx(found.values["requests_s"] * 2 / 3, rel=0.01)  # type: ignore[operator]
    assert "goodput_s" not in cell_figures(capture_of(tmp_path, rows)).values


def test_rates_of_workers_are_summed(tmp_path: Path) -> None:
    far = 10**12
    rows = [
        request(0, 100, worker="a", chunks_ms=[50, 100]),
        request(far, far + 100, worker="b", user=1, chunks_ms=[far + 50, far + 100]),
    ]
    found = figures_of(tmp_path, *rows, users=2)
    assert found.values["output_tok_s"] == pytest.approx(2 * 2 / 0.1)
    assert found.values["output_tok_s_whole"] == pytest.approx(2 * 2 / 0.1)


def test_open_loop_latencies_are_given_from_due_and_from_sent(tmp_path: Path) -> None:
    rows = [request(30, 100, scheduled_ms=10), request(200, 300, scheduled_ms=200)]
    values = figures_of(tmp_path, *rows, users=None, rate=5.0).values
    assert values["e2e_ms_mean"] == pytest.approx((70 + 100) / 2)
    assert values["e2e_scheduled_ms_mean"] == pytest.approx((90 + 100) / 2)


def test_prefill_comes_from_the_servers_timings_else_from_ttft_alone(tmp_path: Path) -> None:
    told = request(0, 100, prompt_tokens=50, server_timings={"prompt_n": 50, "prompt_ms": 25.0})
    assert figures_of(tmp_path, told).values["prefill_tok_s"] == pytest.approx(2000)
    silent = request(0, 100, prompt_tokens=50)
    assert figures_of(tmp_path, silent).values["prefill_tok_s"] == pytest.approx(500)
    both = [request(0, 100, prompt_tokens=50, user=0), request(0, 100, prompt_tokens=50, user=1)]
    assert figures_of(tmp_path, *both, users=2).values["prefill_tok_s"] is None


def test_goodput_is_not_known_where_tpot_is_not(tmp_path: Path) -> None:
    rows = [request(0, 100, chunks_ms=[50, 100]), request(100, 200, chunks_ms=[150, 200], completion_tokens=None)]
    found = cell_figures(capture_of(tmp_path, rows), {"tpot_ms": 60.0})
    assert found.values["goodput_s"] is None
    assert found.values["requests_s"] == pytest.approx(10)
    assert cell_figures(capture_of(tmp_path, rows), {"ttft_ms": 60.0}).values["goodput_s"] == pytest.approx(10)


def test_an_answer_of_one_token_has_no_tpot_to_miss(tmp_path: Path) -> None:
    rows = [request(0, 100, tokens=1), request(100, 200, chunks_ms=[120, 200])]
    found = cell_figures(capture_of(tmp_path, rows), {"tpot_ms": 50.0})
    assert found.values["goodput_s"] == pytest.approx(5)


def test_goodput_of_an_open_loop_counts_the_wait_for_a_free_user(tmp_path: Path) -> None:
    rows = [
        request(0, 100, scheduled_ms=0),
        request(100, 200, scheduled_ms=10, user=1),
        request(200, 300, scheduled_ms=20),
    ]
    found = cell_figures(capture_of(tmp_path, rows, shape="open", rate=100.0), {"ttft_ms": 150.0})
    assert found.values["ttft_ms_p50"] == pytest.approx(100)
    assert found.values["requests_s"] == pytest.approx(10)
    assert found.values["goodput_s"] == pytest.approx(5)


def test_the_pause_of_a_resumed_cell_is_no_time_of_the_engine(tmp_path: Path) -> None:
    rows = [request(0, 1000, tokens=100), request(3_600_000, 3_601_000, tokens=100)]
    found = figures_of(tmp_path, *rows)
    assert found.values["output_tok_s_whole"] == pytest.approx(100)
