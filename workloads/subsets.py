"""Which part of a workload is asked. Standard library only."""

from __future__ import annotations

import random
from collections.abc import Sequence

from workloads.problem_sets import TaskError
from workloads.prompts import MEASURE, Prompt


def subset(
    prompts: Sequence[Prompt], *, first: int | None = None, sample: int | None = None, seed: int = 0
) -> list[Prompt]:
    """Keep the first n measured prompts, or a seeded sample of n in their own order; the warm-up pool stays whole.

    Raises:
        TaskError: both are asked, or more than there are.
    """
    measured = [prompt for prompt in prompts if prompt.pool == MEASURE]
    asked = first if first is not None else sample
    if first is not None and sample is not None:
        raise TaskError("a subset is the first n or a sample of n, not both")
    if asked is not None and not 1 <= asked <= len(measured):
        raise TaskError(f"a subset of {asked} was asked, but there are {len(measured)} prompts to measure")
    kept = measured
    if first is not None:
        kept = measured[:first]
    elif sample is not None:
        drawn = random.Random(seed).sample(range(len(measured)), sample)  # noqa: S311 (the seed is in the manifest)
        kept = [measured[i] for i in sorted(drawn)]
    return kept + [prompt for prompt in prompts if prompt.pool != MEASURE]


def subset_label(*, first: int | None = None, sample: int | None = None, seed: int = 0) -> str:
    """How a report names the subset: `all`, `first 50`, `sample of 50 (seed 7)`."""
    if first is not None:
        return f"first {first}"
    return "all" if sample is None else f"sample of {sample} (seed {seed})"
