"""The steady window and the in-flight curve, on schedules small enough to check by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from records import CellFolder, Record
from scoring.captures import Capture, load_capture
from scoring.speed.steady import GAP_TOLERANCE_MS, find_steady, in_flight_curve
from tests.scoring.hand import MS, capture_of, request


def curve(capture: Capture, tolerance_ms: float = 0.0) -> list[tuple[float, int]]:
    times, number = in_flight_curve(capture.measured, tolerance_ms)
    return [(float(t), int(n)) for t, n in zip(times, number, strict=True)]


def test_in_flight_rises_at_a_send_and_falls_at_an_end(tmp_path: Path) -> None:
    capture = capture_of(tmp_path, [request(0, 100, user=0), request(50, 200, user=1)])
    assert curve(capture) == [(0, 1), (50, 2), (100, 1), (200, 0)]


def test_a_users_short_pause_counts_as_in_flight_and_a_long_one_does_not(tmp_path: Path) -> None:
    short, long = GAP_TOLERANCE_MS - 1, GAP_TOLERANCE_MS + 1
    capture = capture_of(tmp_path, [request(0, 100), request(100 + short, 200), request(200 + long, 300)])
    assert curve(capture, GAP_TOLERANCE_MS) == [(0, 1), (100 + short, 1), (200, 0), (200 + long, 1), (300, 0)]


def test_the_steady_window_leaves_out_ramp_and_drain(tmp_path: Path) -> None:
    rows = [request(0, 100, user=0), request(40, 150, user=1), request(101, 190, user=0)]
    steady = find_steady(capture_of(tmp_path, rows, users=2))
    assert [(w.start_ms, w.end_ms) for w in steady.windows] == [(40, 150)]
    assert (steady.asked, steady.reached) == (2, 2)
    assert steady.at_asked == pytest.approx(110 / 150)  # the way up was owed too
    assert steady.length_s == pytest.approx(0.110)


def test_a_concurrency_that_was_never_reached_has_no_window(tmp_path: Path) -> None:
    steady = find_steady(capture_of(tmp_path, [request(0, 100), request(101, 200)], users=4))
    assert steady.windows == ()
    assert steady.length_s is None
    assert steady.reached == 1


def test_a_semaphore_that_holds_concurrency_at_one_is_seen(tmp_path: Path) -> None:
    rows = [request(i * 100, i * 100 + 99, user=i % 2) for i in range(10)] + [request(0, 20, user=1)]
    steady = find_steady(capture_of(tmp_path, rows, users=2))
    # Two were in flight only in the first 20 ms.
    assert [(w.start_ms, w.end_ms) for w in steady.windows] == [(0, 20)]
    # The window alone is full; the load went on to its last send at 900 ms.
    assert steady.at_asked == pytest.approx(20 / 900)


def test_a_load_that_creeps_up_is_not_at_the_asked_concurrency(tmp_path: Path) -> None:
    rows = [request(0, 1000, user=0), request(600, 1000, user=1), request(1000, 1100, user=0)]
    assert find_steady(capture_of(tmp_path, rows, users=2)).at_asked == pytest.approx(0.4)


def test_a_long_last_answer_takes_nothing_from_the_share(tmp_path: Path) -> None:
    rows = [request(0, 100, user=0), request(0, 5000, user=1), request(100, 200, user=0)]
    assert find_steady(capture_of(tmp_path, rows, users=2)).at_asked == pytest.approx(1.0)


def test_the_pauses_that_count_as_in_flight_are_in_no_mean(tmp_path: Path) -> None:
    rows = [request(i * 20, i * 20 + 5) for i in range(10)]
    steady = find_steady(capture_of(tmp_path, rows, users=1))
    assert steady.at_asked == pytest.approx(1.0)
    assert steady.mean_in_flight == pytest.approx(50 / 185)


def test_a_dip_inside_the_window_lowers_the_share_at_the_asked_concurrency(tmp_path: Path) -> None:
    rows = [request(0, 1000, user=0), request(0, 300, user=1), request(700, 1000, user=1)]
    steady = find_steady(capture_of(tmp_path, rows, users=2))
    assert steady.at_asked == pytest.approx(0.6)
    assert steady.mean_in_flight == pytest.approx(1.6)


def test_a_resumed_cell_has_two_windows_and_its_pause_is_told(tmp_path: Path) -> None:
    rows = [request(0, 100), request(101, 200), request(60_000, 60_100)]
    steady = find_steady(capture_of(tmp_path, rows, users=1))
    assert [(w.start_ms, w.end_ms) for w in steady.windows] == [(0, 200), (60_000, 60_100)]
    assert steady.pauses_ms == (59_800,)
    assert steady.length_s == pytest.approx(0.3)


def test_workers_with_clocks_apart_are_summed_and_never_compared(tmp_path: Path) -> None:
    far = 10**12
    rows = [request(0, 100, worker="a"), request(far, far + 100, worker="b", user=1)]
    steady = find_steady(capture_of(tmp_path, rows, users=2))
    assert steady.asked == 2
    assert [(w.worker, w.start_ms, w.end_ms) for w in steady.windows] == [("a", 0, 100), ("b", 0, 100)]
    assert steady.mean_in_flight == pytest.approx(2.0)


def test_open_loop_load_is_steady_from_the_first_to_the_last_send(tmp_path: Path) -> None:
    rows = [request(0, 900, user=0), request(200, 300, user=1), request(500, 1500, user=2)]
    steady = find_steady(capture_of(tmp_path, rows, users=None, rate=4.0))
    assert steady.asked is None
    assert [(w.start_ms, w.end_ms) for w in steady.windows] == [(0, 500)]


def test_a_request_that_never_went_out_was_never_in_flight(tmp_path: Path) -> None:
    row = request(0, 100)
    lost = request(10, 20, user=1)
    lost.sent_ns, lost.status, lost.error = None, "error", {"kind": "connect_failed", "message": ""}
    assert curve(capture_of(tmp_path, [row, lost], users=2)) == [(0, 1), (100, 0)]


def test_a_torn_last_line_is_left_out_and_another_is_an_error_with_its_line(tmp_path: Path) -> None:
    folder = CellFolder(tmp_path / "single.x")
    folder.path.mkdir()
    line = request(0, 100).to_json_line()
    folder.requests.write_text(line + line[:50])
    assert len(load_capture(folder, "e", 1).requests) == 1
    folder.requests.write_text(line[:50] + "\n" + line)
    with pytest.raises(ValueError, match=r"requests\.jsonl:1: "):
        load_capture(folder, "e", 1)
    folder.requests.write_text('{"id": 1}\n')
    with pytest.raises(ValueError, match="not a record"):
        load_capture(folder, "e", 1)


def test_stamps_after_years_of_uptime_lose_no_nanosecond(tmp_path: Path) -> None:
    record = request(0, 100)
    start = 2**60 + 1
    shifted = Record(**{**record.to_dict(), "sent_ns": start, "end_ns": start + 100 * MS + 1, "last_token_ns": None})
    frame = capture_of(tmp_path, [shifted]).requests
    assert frame["end_ms"].iloc[0] == 100 + 1e-6
