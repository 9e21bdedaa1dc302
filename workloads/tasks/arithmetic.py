"""Word problems of our own in one to three steps; needs no network."""

from __future__ import annotations

from workloads.prompts import MEASURE, Prompt
from workloads.task import Options, Task, ask
from workloads.word_problems import word_problems


def load(options: Options) -> list[Prompt]:
    """Every problem, always the same ones."""
    return [
        Prompt(f"arithmetic-{i:02d}", ask(p.text, options.few_shot), str(p.answer), "arithmetic", MEASURE, 256)
        for i, p in enumerate(word_problems(), start=1)
    ]


TASKS = {"arithmetic": Task(load, graded=True)}
