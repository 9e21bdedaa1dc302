"""perf-short, perf-medium, perf-long: prompts of about 32, 256 and 1,024 tokens that share no prefix; not graded."""

from __future__ import annotations

from workloads import perf_prompts
from workloads.problem_sets import TaskError
from workloads.prompts import MEASURE, WARMUP, Prompt
from workloads.task import Options, Task


def _task(workload: str) -> Task:
    def pool(name: str, options: Options, count: int) -> list[Prompt]:
        try:
            texts = perf_prompts.perf_texts(workload, name, options.seed, count)
        except ValueError as error:
            raise TaskError(f"{workload}: {error}") from None
        prefix = workload if name == MEASURE else f"{workload}-{name}"
        return [
            Prompt(f"{prefix}-{i:04d}", ({"role": "user", "content": text},), None, "perf", name)
            for i, text in enumerate(texts, start=1)
        ]

    return Task(
        load=lambda options: pool(MEASURE, options, options.count or perf_prompts.MEASURED),
        warmup=lambda options: pool(WARMUP, options, perf_prompts.WARMUP),
        graded=False,
    )


TASKS = {workload: _task(workload) for workload in perf_prompts.TOKENS}
