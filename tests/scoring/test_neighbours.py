"""Fewer users never make a token slower: the audit compares the cells of one engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from scoring.compare import compare
from tests.builders import RunBuilder, Speed


@pytest.mark.parametrize(("tpot_at_4", "status"), [(12.3, "warn"), (10.9, "pass"), (8.0, "pass")])
def test_a_cell_that_is_slower_than_the_next_larger_one_is_a_warning(
    tmp_path: Path, tpot_at_4: float, status: str
) -> None:
    run = RunBuilder()
    for users, tpot in ((4, tpot_at_4), (8, 11.0)):
        speed = Speed(20, tpot, users=users, requests=16)
        run.perf(f"concurrent_{users}.perf-short", {"base": speed, "cand": speed})
    audit = compare(run.write(tmp_path / "run"), created="now")["audit"]
    rows = [row for row in audit if row["check"] == "no slower than with more users"]
    assert [(row["engine"], row["cell"], row["status"]) for row in rows] == [
        ("base", "concurrent_4.perf-short", status),
        ("cand", "concurrent_4.perf-short", status),
    ]
    assert "with 4 in flight" in rows[0]["evidence"] and "with 8" in rows[0]["evidence"]
