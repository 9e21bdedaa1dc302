"""However and whenever a distributed run is stopped, every answer that the engine finished is on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks._harness import PacingServer
from benchmarks.distributed_stops import KINDS, stop_once


@pytest.mark.parametrize("after_s", [0.05, 0.4])
@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_loses_no_answer(tmp_path: Path, kind: str, after_s: float) -> None:
    # Locust's -t runs from the start of the process, which takes its time on a busy machine.
    patience_s = 1 if kind == "run-time" else 0
    with PacingServer(ttft_ms=30, interval_ms=5) as server:
        stop = stop_once(kind, server, tmp_path, patience_s + after_s)
    assert (stop.lost, stop.note) == (0, "")
    assert stop.answered == stop.recorded > 0
