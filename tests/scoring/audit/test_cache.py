"""The audit's checks of the prompt cache, where prefixes may be reused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from records import Record
from scoring.compare import compare
from tests.builders import RunBuilder, Speed

CELL = "single.talk"
PROMPT = {1: 100, 2: 200, 3: 300, 4: 400}
"""Prompt tokens of each turn; the turn before is what can be reused."""


def talk(number: int, record: Record, cached: dict[int, int | None]) -> None:
    """Make the measured record of this number one of a conversation of four turns."""
    place = number % 4 + 1
    record.conversation, record.turn, record.turns = f"c{number // 4}", place, 4
    record.prompt_tokens, record.cached_tokens = PROMPT[place], cached[place]
    record.server_timings = None


def row(tmp_path: Path, check: str, cached: dict[int, int | None], base: dict[int, int | None]) -> tuple[str, str]:
    run = RunBuilder()
    run.profile["cache"] = True
    speed = Speed(20, 10, tokens=8, requests=16)
    run.perf(CELL, {"base": speed, "cand": speed})
    for engine, found in (("base", base), ("cand", cached)):
        records = run.every_record(engine, CELL)
        for number, record in enumerate(record for record in records if record.measured):
            talk(number, record, found)
    rows: list[dict[str, Any]] = compare(run.write(tmp_path / "run"), created="now")["audit"]
    (found_row,) = [r for r in rows if r["check"] == check and r["engine"] == "cand"]
    return found_row["status"], found_row["evidence"]


ALL: dict[int, int | None] = {1: 24, 2: 100, 3: 200, 4: 300}
NONE: dict[int, int | None] = dict.fromkeys(PROMPT, 0)
UNKNOWN: dict[int, int | None] = dict.fromkeys(PROMPT)


@pytest.mark.parametrize(
    ("cached", "base", "status", "evidence"),
    [
        (ALL, ALL, "pass", "62.4% of prompt tokens came from the cache, 60.0% could have"),
        (NONE, NONE, "warn", "0.0% of prompt tokens came from the cache, 60.0% could have: 100.0% of the reusable"),
        (NONE, ALL, "warn", "of the reusable ones 0.0% here, 100.0% in the baseline"),
        ({**ALL, 1: 100, 4: 400}, ALL, "warn", "are hits that nobody planned"),
        (UNKNOWN, ALL, "unknown", "the engine does not report cached tokens"),
    ],
)
def test_hits_are_held_against_the_plan_and_the_baseline(
    tmp_path: Path, cached: dict[int, int | None], base: dict[int, int | None], status: str, evidence: str
) -> None:
    found = row(tmp_path, "cache hits as planned", cached, base)
    assert found[0] == status, found
    assert evidence in found[1]


def test_a_first_turn_in_the_cache_was_left_over_and_a_template_head_was_not(tmp_path: Path) -> None:
    assert row(tmp_path / "a", "cache cold", ALL, ALL)[0] == "pass"
    status, evidence = row(tmp_path / "b", "cache cold", {**ALL, 1: 100}, ALL)
    assert status == "fail"
    assert "4 of 4 prompts that nobody had sent before were in the cache, 100 tokens at most" in evidence
