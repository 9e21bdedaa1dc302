"""The audit's checks of what was asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scoring.compare import compare
from tests.builders import RunBuilder, Speed

CELL = "concurrent_4.perf-medium"


@pytest.mark.parametrize(
    ("counted", "planned", "status", "evidence"),
    [
        ([32], 20, "pass", "exact for 16 requests, with 12 tokens of the chat template"),
        ([32, 33], 2000, "pass", "near: -1968 to -1967 tokens against the planned 2,000"),
        ([32, 33], 20, "warn", "+12 to +13 tokens against the planned 20: lengths are near, not exact"),
        ([None], 20, "unknown", "the engine does not report prompt tokens"),
        ([32], None, "not_applicable", "no length was planned"),
    ],
)
def test_prompts_that_were_made_to_a_length_have_it(
    tmp_path: Path, counted: list[int | None], planned: int | None, status: str, evidence: str
) -> None:
    run = RunBuilder()
    speed = Speed(20, 10, tokens=64, requests=16)
    run.perf(CELL, {"base": speed, "cand": speed})
    workload = CELL.partition(".")[2]
    run.workloads[workload] = [replace(prompt, input_tokens=planned) for prompt in run.workloads[workload]]
    for number, record in enumerate(run.every_record("cand", CELL)):
        record.prompt_tokens = counted[number % len(counted)]
    rows: list[dict[str, Any]] = compare(run.write(tmp_path / "run"), created="now")["audit"]
    (row,) = [row for row in rows if row["check"] == "prompts as long as planned" and row["engine"] == "cand"]
    assert (row["status"], row["evidence"]) == (status, evidence)
