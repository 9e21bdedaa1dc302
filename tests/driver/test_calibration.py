"""What a client reported of a pacing server is held against what that server did, by hand-made figures."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from driver.calibration import Accuracy, Row, Seen, accuracy, complaints, verdict
from driver.commands.calibrate import command
from records import Record

MS = 1_000_000


def truth(received: int, first: int, gap: int, chunks: int, tokens: int, late: int = 0) -> dict[str, int]:
    last = first + gap * (chunks - 1)
    return {
        "received_ns": received, "first_ns": first, "last_ns": last, "chunks": chunks, "tokens": tokens,
        "late_ns": late, "finished": 1,
    }  # fmt: skip


def seen(sent: int, row: dict[str, int], lags: list[int]) -> Seen:
    gap = (row["last_ns"] - row["first_ns"]) // (row["chunks"] - 1)
    stamps = [row["first_ns"] + gap * n for n in range(row["chunks"])]
    return Seen(sent, [stamp + lag for stamp, lag in zip(stamps, lags, strict=True)], stamps, row["tokens"])


def test_errors_are_reported_less_true_of_the_same_request() -> None:
    row = truth(received=1_000 * MS, first=1_050 * MS, gap=10 * MS, chunks=3, tokens=3, late=2 * MS)
    # Sent 0.4 ms before it was received; the first chunk seen 0.1 ms after it was sent, the last 0.3 ms.
    found = accuracy([seen(999_600_000, row, [100_000, 200_000, 300_000])], [row])
    assert found.requests == 1
    assert found.chunks == 3
    assert found.ttft_true_ms_p50 == pytest.approx(50)
    assert found.ttft_ms_p50 == pytest.approx(50.5)
    assert found.ttft_error_ms_p50 == pytest.approx(0.5)
    assert found.tpot_true_ms_p50 == pytest.approx(10)
    assert found.tpot_ms_p50 == pytest.approx(10.1)
    assert found.tpot_error_percent == pytest.approx(1)
    assert found.lag_us_p50 == pytest.approx(200)
    assert found.server_late_ms_p99 == pytest.approx(2)


def test_tokens_after_the_first_chunk_divide_the_time() -> None:
    row = truth(received=0, first=50 * MS, gap=10 * MS, chunks=5, tokens=20)
    found = accuracy([seen(0, row, [0] * 5)], [row])
    assert found.tpot_true_ms_p50 == pytest.approx(40 / 16)
    assert found.tpot_error_percent == pytest.approx(0)


def test_each_request_is_held_against_its_own_row() -> None:
    rows = [truth(n * 1000 * MS, n * 1000 * MS + (50 + n) * MS, 10 * MS, 2, 2) for n in range(1, 4)]
    clients = [seen(row["received_ns"], row, [0, 0]) for row in reversed(rows)]
    assert accuracy(clients, rows).ttft_error_ms_p99 == pytest.approx(0)


def test_a_request_that_the_server_does_not_know_is_no_figure() -> None:
    row = truth(0, 50 * MS, 10 * MS, 2, 2)
    with pytest.raises(ValueError, match="log lacks a request"):
        accuracy([seen(0, row, [0, 0])], [])
    with pytest.raises(ValueError, match="no request"):
        accuracy([], [row])


def test_stamps_are_read_out_of_a_records_text() -> None:
    text = f" {5:018d} on on {1234:018d} on on"
    record = Record(
        id="a", engine="e", cell="s.w", round=1, worker="local", user=0, seq=0, attempt=1, workload="w", prompt_id="p",
        prompt_sha256="0", sample=0, phase="measure", connect_ns=None, scheduled_ns=None, sent_ns=1, end_ns=9,
        chunk_ns=[6, 7], chunk_chars=[25, 25], text=text, completion_tokens=6,
    )  # fmt: skip
    assert Seen.of(record) == Seen(1, [6, 7], [5, 1234], 6)


GOOD = Accuracy(10, 1000, 50.2, 51, 50, 50.5, 0.2, 0.5, 10.0, 10.0, 0.001, 30, 300, 0.2)


def row(streams: int, *, errors: int = 0, cpu: float = 0.2, **figures: float) -> Row:
    return Row(streams, replace(GOOD, **figures), errors, 20.0, cpu, 0.1)  # type: ignore[arg-type]


def test_good_figures_are_fit_up_to_the_most_that_was_tried() -> None:
    assert verdict([row(1), row(64)]) == "fit up to 64 streams, the most that was tried"


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (row(64, errors=2), "2 requests failed"),
        (row(64, errors=1), "1 request failed"),
        (row(64, ttft_error_ms_p99=7), "TTFT is 7.0 ms off"),
        (row(64, tpot_error_percent=-0.6), "TPOT is -0.60% off"),
        (row(64, lag_us_p99=6000), "6.0 ms late"),
        (row(64, cpu=0.95), "95% of a core"),
    ],
)
def test_the_first_unfit_number_of_streams_ends_it_and_says_why(bad: Row, word: str) -> None:
    assert len(complaints(bad)) == 1
    words = verdict([row(1), row(8), bad, row(256)])
    assert words.startswith("fit up to 8 streams; at 64: ")
    assert word in words


def test_one_stream_is_told_as_one() -> None:
    assert verdict([row(1)]).startswith("fit up to 1 stream, ")
    assert verdict([row(1), row(8, errors=2)]).startswith("fit up to 1 stream; at 8: ")


def test_a_late_server_is_named_where_a_figure_is_bad() -> None:
    assert "busy" in verdict([row(8, ttft_error_ms_p99=7, server_late_ms_p99=9)])
    assert verdict([row(8, server_late_ms_p99=9)]).startswith("fit up to 8")


def test_calibrate_measures_the_real_client_against_the_real_server() -> None:
    arguments = ["--streams", "2,1", "--seconds", "0.5", "--tokens", "20", "--tokens-per-chunk", "2", "--json"]
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert done.exception is None, done.output
    found = json.loads(done.stdout)
    assert found["verdict"]
    assert [one["streams"] for one in found["rows"]] == [1, 2]
    for one in found["rows"]:
        assert one["errors"] == 0
        assert one["accuracy"]["chunks"] == one["accuracy"]["requests"] * 10
        assert one["accuracy"]["tpot_true_ms_p50"] == pytest.approx(10 * 9 / 19, rel=0.2)
        assert one["accuracy"]["ttft_error_ms_p50"] > 0
        assert one["accuracy"]["lag_us_p50"] > 0


def test_numbers_of_streams_that_are_none_are_one_line() -> None:
    done = CliRunner().invoke(command, ["--streams", "1,many"], standalone_mode=False)
    assert "--streams 1,many" in str(done.exception)
