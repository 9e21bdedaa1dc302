"""Whether a request met its objectives: the same rule for goodput and for a capacity search."""

from __future__ import annotations

from pathlib import Path

import pytest

from records.objectives import met, objectives_text, parse_objectives
from scoring.speed.latency import cell_figures
from tests.scoring.hand import capture_of, request


def test_objectives_are_read_and_written() -> None:
    assert parse_objectives("ttft_ms=500, tpot_ms=50.5") == {"ttft_ms": 500.0, "tpot_ms": 50.5}
    assert objectives_text({"ttft_ms": 500.0, "tpot_ms": None, "e2e_ms": 12.5}) == "ttft_ms=500,e2e_ms=12.5"
    assert parse_objectives("") == {}


@pytest.mark.parametrize("text", ["ttft=500", "ttft_ms", "ttft_ms=-1", "ttft_ms=nan", "tpot_ms=x"])
def test_what_is_no_objective_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME=MS was expected"):
        parse_objectives(text)


def test_a_request_meets_all_limits_or_none_counts() -> None:
    record = request(0, 90, chunks_ms=[30, 60, 90])
    assert met(record, {"ttft_ms": 30, "tpot_ms": 30, "e2e_ms": 90}) is True
    assert met(record, {"ttft_ms": 29.9}) is False
    assert met(record, {"ttft_ms": 30, "tpot_ms": 29}) is False
    assert met(request(0, 90, status="error", error={"kind": "busy", "message": ""}), {"ttft_ms": 1000}) is False


def test_in_an_open_loop_the_clock_starts_when_the_request_was_due() -> None:
    late = request(100, 190, chunks_ms=[130, 160, 190], scheduled_ms=50)
    assert met(late, {"ttft_ms": 79}) is False
    assert met(late, {"ttft_ms": 80}) is True


def test_an_unknown_tpot_cannot_be_judged_and_one_token_has_none_to_miss() -> None:
    assert met(request(0, 90, chunks_ms=[30, 60, 90], completion_tokens=None), {"tpot_ms": 50}) is None
    assert met(request(0, 30, chunks_ms=[30]), {"tpot_ms": 50}) is True


def test_goodput_counts_the_same_requests(tmp_path: Path) -> None:
    records = [request(100.0 * n, 100.0 * n + 3 * gap, chunks_ms=[100.0 * n + gap * k for k in (1, 2, 3)])
               for n, gap in enumerate((10, 20, 28, 31, 25))]  # fmt: skip
    limits = {"ttft_ms": 26.0, "tpot_ms": 29.0}
    figures = cell_figures(capture_of(tmp_path, records), limits)
    assert figures.samples["met"].tolist() == [float(bool(met(record, limits))) for record in records]
    assert figures.samples["met"].sum() == 3
