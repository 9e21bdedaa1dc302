"""Requests that are sent at the times of a trace, which their prompts carry."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from load.options import TRACE, UsageError
from workloads.prompts import WARMUP, Prompt


def check_trace(options: Any, prompts: Sequence[Prompt]) -> None:
    """Look at whether prompts say when they are due where arrivals come from them.

    Raises:
        UsageError: one does not, they are not in the order of time, or there are fewer than requested.
    """
    if options.arrivals != TRACE:
        return
    measured = [prompt for prompt in prompts if prompt.pool != WARMUP]
    if missing := next((prompt for prompt in measured if prompt.at_s is None), None):
        raise UsageError(f"--arrivals trace: prompt {missing.prompt_id} has no `at_s`; the workload is no trace")
    for before, prompt in itertools.pairwise(measured):
        if (prompt.at_s or 0.0) < (before.at_s or 0.0):
            raise UsageError(
                f"--arrivals trace: prompt {prompt.prompt_id} is due before the one above it; sort the rows by `at_s`"
            )
    if options.requests > len(measured):
        raise UsageError(f"--requests {options.requests}: the trace has {len(measured)}")
