"""Makes a profile of what `enginebench replay` was asked: a trace, or the traffic of a run's cell, and the engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driver.ab import Asked, engine_sections
from driver.errors import BenchError, ExitCode
from records import RunFolder
from records.endpoint import CHAT
from workloads import TaskError
from workloads.traces import Trace, read_trace

MOST_USERS = 512
"""Requests in flight at most, unless --users says otherwise."""
TEMPLATE_TOKENS = 256
"""Room for a chat template around a prompt."""
WORKLOAD = "replayed"


def profile_values(
    asked: Asked,
    source: Path,
    *,
    cell: str | None = None,
    engine: str | None = None,
    speed: float = 1.0,
    first: int | None = None,
    cap: int | None = None,
    users: int = MOST_USERS,
) -> dict[str, Any]:
    """The profile as TOML would have it, to be checked by `driver.profile.read.parse_profile`.

    Args:
        asked: the engines and rounds.
        source: a trace's file, or a run's folder.
        cell: which cell of the run; None: its only one.
        engine: whose records of the run; None: the first engine's, by name.
        speed: how much faster than recorded.
        first: only the first so many requests.
        cap: most tokens of a prompt, and of an answer.
        users: most requests in flight.

    Raises:
        BenchError: nothing can be replayed (exit code 2).
    """
    file = _records_of(RunFolder(source), cell, engine) if source.is_dir() else source
    try:
        trace = read_trace(file, first=first)
    except TaskError as error:
        raise BenchError(str(error), ExitCode.USAGE) from None
    engines = engine_sections(asked)
    wanted: dict[str, Any] = {"file": str(file.absolute()), "speed": speed}
    return {
        "name": "replay",
        "description": f"{file.name}: {len(trace.arrivals)} requests in {trace.seconds / speed:.0f} s",
        "baseline": engines[0]["name"],
        "rounds": asked.rounds,
        "max_seq_len": asked.max_seq_len or _context(trace, cap),
        **({} if asked.endpoint == CHAT else {"endpoint": asked.endpoint}),
        "engines": engines,
        "cells": [
            {
                "scenario": "open_loop",
                "workload": WORKLOAD,
                "users": users,
                "warmup": 1,
                "fixed_length": asked.fixed_length,
                "options": {"arrivals": "trace"},
            }
        ],
        "workloads": {
            WORKLOAD: {**({"first": first} if first else {}), "trace": wanted | ({"cap_tokens": cap} if cap else {})}
        },
    }


def _context(trace: Trace, cap: int | None) -> int:
    """Tokens per slot that the longest request needs, in steps of 256."""
    longest = max(min(one.input_tokens, cap or one.input_tokens) for one in trace.arrivals)
    answers = max(min(one.output_tokens, cap or one.output_tokens) for one in trace.arrivals)
    return -(-(longest + answers + TEMPLATE_TOKENS) // 256) * 256


def _records_of(run: RunFolder, cell: str | None, engine: str | None) -> Path:
    """The requests.jsonl of one cell of a run, of its first round.

    Raises:
        BenchError: there is none, or several and none was named.
    """
    found = {
        (path.parts[-4], path.parts[-2]): path
        for path in sorted(run.path.glob(f"{engine or '*'}/r1/{cell or '*'}/requests.jsonl"), reverse=True)
    }
    cells = sorted({name for _, name in found})
    if not cells:
        raise BenchError(f"{run.path}: no records of such a cell and engine to replay", ExitCode.USAGE)
    if len(cells) > 1:
        raise BenchError(f"{run.path}: has several cells; name one with --cell: {', '.join(cells)}", ExitCode.USAGE)
    return found[min(found)]
