"""What is asked: one file a task, each with its own `TASKS`, by the name of the workload.

A new task is one new file: how its prompts are loaded (with their golds), and whether an answer to it can be graded.
Everything after `load_prompts` sees the same rows, whatever they come from: the workload file
(`workloads/<workload>.jsonl`) has one `Prompt` a line.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from workloads import tasks
from workloads.choice_sets import read_choice_file
from workloads.problem_sets import TaskError, default_data_dir
from workloads.prompts import MEASURE, WARMUP, Message, Prompt, asked_id, read_prompts, to_lines, turn_id, write_prompts
from workloads.subsets import subset, subset_label
from workloads.task import INSTRUCTION, Options, Task, warmup_problems

__all__ = [
    "DATA_SETS",
    "INSTRUCTION",
    "MEASURE",
    "TASKS",
    "WARMUP",
    "Message",
    "Prompt",
    "Task",
    "TaskError",
    "asked_id",
    "default_data_dir",
    "load_prompts",
    "read_prompts",
    "subset",
    "subset_label",
    "to_lines",
    "turn_id",
    "write_prompts",
]


def _tasks() -> dict[str, Task]:
    """The tasks of every file in `workloads/tasks`."""
    found: dict[str, Task] = {}
    for file in pkgutil.iter_modules(tasks.__path__, prefix=f"{tasks.__name__}."):
        found.update(importlib.import_module(file.name).TASKS)
    return found


TASKS = _tasks()
"""Every task by its workload's name; a path is the only other workload."""
DATA_SETS = {name: task.data_set for name, task in TASKS.items() if task.data_set}
"""What `fetch` can bring."""


def load_prompts(
    workload: str,
    *,
    seed: int = 0,
    data_dir: Path | None = None,
    few_shot: int = 0,
    count: int | None = None,
) -> list[Prompt]:
    """The prompts of a workload, measured ones first, then the warm-up pool (which every workload has).

    Args:
        workload: a task of `TASKS`, or the path of a JSONL (or ShareGPT) file.
        seed: what perf prompts are drawn from, and choices shuffled by; nothing else depends on it.
        data_dir: where `fetch` put the public sets; default `workloads.default_data_dir()`.
        few_shot: how many worked examples of our own come before each problem of a graded task.
        count: how many measured perf prompts; the default is more than most runs ask.

    Raises:
        TaskError: one line that says what is missing or wrong, and where.
    """
    task = TASKS.get(workload)
    if few_shot and not (task and task.graded and task.takes_examples):
        taking = ", ".join(name for name, known in TASKS.items() if known.graded and known.takes_examples)
        raise TaskError(f"{workload}: worked examples (few-shot) go with graded problems only ({taking})")
    if task is None:
        return _user_file(workload, seed)
    options = Options(seed, data_dir, few_shot, count)
    return task.load(options) + task.warmup(options)


def _user_file(path: str, seed: int) -> list[Prompt]:
    if not Path(path).exists():
        raise TaskError(f"{path}: no such prompts file, and no task of that name ({', '.join(TASKS)})")
    prompts = read_choice_file(Path(path), seed) or read_prompts(Path(path))
    if any(prompt.pool == WARMUP for prompt in prompts):
        return prompts
    return prompts + warmup_problems(Options())
