"""Word problems of our own in one to three steps; needs no network."""

from __future__ import annotations

from scoring._arithmetic import word_problems
from scoring._prompts import MEASURE, Prompt
from scoring.tasks._task import Options, Task, ask


def load(options: Options) -> list[Prompt]:
    """Every problem, always the same ones."""
    return [
        Prompt(f"arithmetic-{i:02d}", ask(p.text, options.few_shot), str(p.answer), "arithmetic", MEASURE, 256)
        for i, p in enumerate(word_problems(), start=1)
    ]


TASKS = {"arithmetic": Task(load, graded=True)}
