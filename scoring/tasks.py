"""What is asked: tasks and their prompts, as every stage and the load process read them. Standard library only.

A new task is one entry in `TASKS`: how its prompts are loaded (with their golds) and how an answer to it is graded.
Everything after `load_prompts` sees the same rows, whatever they come from: the workload file
(`workloads/<workload>.jsonl`) has one `Prompt` a line.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scoring import _perf_prompts
from scoring._arithmetic import word_problems
from scoring._datasets import AIME2025, GSM8K, DataSet, TaskError, default_data_dir, load_problems
from scoring._prompts import MEASURE, WARMUP, Message, Prompt, read_prompts, to_lines, write_prompts
from scoring._subsets import repeated, subset, subset_label

__all__ = [
    "INSTRUCTION",
    "MEASURE",
    "TASKS",
    "WARMUP",
    "Message",
    "Prompt",
    "Task",
    "TaskError",
    "default_data_dir",
    "load_prompts",
    "read_prompts",
    "repeated",
    "subset",
    "subset_label",
    "to_lines",
    "write_prompts",
]

INSTRUCTION = "Please reason step by step, and put your final answer within \\boxed{}."


@dataclass(frozen=True, slots=True)
class Options:
    """What a task's loader may take into account."""

    seed: int = 0
    data_dir: Path | None = None
    few_shot: int = 0
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One task: its measured prompts, and whether `scoring.answers.grade` has an answer to judge."""

    load: Callable[[Options], list[Prompt]]
    warmup: Callable[[Options], list[Prompt]]
    """Prompts that are never measured, so that nothing measured is in a cache beforehand."""
    graded: bool


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
        workload: a task of `TASKS`, or the path of a JSONL file.
        seed: what perf prompts are drawn from; nothing else depends on it.
        data_dir: where `fetch` put the public sets; default `scoring.tasks.default_data_dir()`.
        few_shot: how many worked examples of our own come before each problem of a graded task.
        count: how many measured perf prompts; the default is more than most runs ask.

    Raises:
        TaskError: one line that says what is missing or wrong, and where.
    """
    task = TASKS.get(workload)
    if few_shot and (task is None or not task.graded):
        raise TaskError(f"{workload}: worked examples (few-shot) go with arithmetic, gsm8k and aime2025 only")
    if task is None:
        return _user_file(workload)
    options = Options(seed, data_dir, few_shot, count)
    return task.load(options) + task.warmup(options)


def _user_file(path: str) -> list[Prompt]:
    if not Path(path).exists():
        raise TaskError(f"{path}: no such prompts file, and no task of that name ({', '.join(TASKS)})")
    prompts = read_prompts(Path(path))
    if any(prompt.pool == WARMUP for prompt in prompts):
        return prompts
    return prompts + _arithmetic_warmup(Options())


def _ask(text: str, few_shot: int = 0) -> tuple[Message, ...]:
    """The problem with the instruction, after worked examples of our own as turns of the same conversation."""
    turns: list[Message] = []
    for example in word_problems(few_shot, seed=8):
        turns += [
            {"role": "user", "content": f"{example.text}\n{INSTRUCTION}"},
            {
                "role": "assistant",
                "content": "\n".join(example.solution) + f"\nThe answer is \\boxed{{{example.answer}}}.",
            },
        ]
    return (*turns, {"role": "user", "content": f"{text}\n{INSTRUCTION}"})


def _arithmetic(options: Options) -> list[Prompt]:
    return [
        Prompt(f"arithmetic-{i:02d}", _ask(p.text, options.few_shot), str(p.answer), "arithmetic", MEASURE, 256)
        for i, p in enumerate(word_problems(), start=1)
    ]


def _arithmetic_warmup(options: Options) -> list[Prompt]:
    """Problems about people who are in no measured problem."""
    people = ("Anselm", "Brigid", "Cosima", "Dario", "Eskil", "Fenna", "Gwen", "Henrik")
    problems = word_problems(32, seed=1, names=people)
    return [
        Prompt(f"warmup-{i:02d}", _ask(p.text, options.few_shot), str(p.answer), "arithmetic", WARMUP, 256)
        for i, p in enumerate(problems, start=1)
    ]


def _data_set(data_set: DataSet, max_tokens: int | None) -> Callable[[Options], list[Prompt]]:
    def load(options: Options) -> list[Prompt]:
        return [
            Prompt(p.id, _ask(p.text, options.few_shot), p.gold, data_set.name, MEASURE, max_tokens)
            for p in load_problems(data_set, options.data_dir)
        ]

    return load


def _perf(workload: str) -> Task:
    def pool(name: str, options: Options, count: int) -> list[Prompt]:
        try:
            texts = _perf_prompts.perf_texts(workload, name, options.seed, count)
        except ValueError as error:
            raise TaskError(f"{workload}: {error}") from None
        prefix = workload if name == MEASURE else f"{workload}-{name}"
        return [
            Prompt(f"{prefix}-{i:04d}", ({"role": "user", "content": text},), None, "perf", name)
            for i, text in enumerate(texts, start=1)
        ]

    return Task(
        load=lambda options: pool(MEASURE, options, options.count or _perf_prompts.MEASURED),
        warmup=lambda options: pool(WARMUP, options, _perf_prompts.WARMUP),
        graded=False,
    )


TASKS: dict[str, Task] = {
    **{workload: _perf(workload) for workload in _perf_prompts.TOKENS},
    "arithmetic": Task(_arithmetic, _arithmetic_warmup, graded=True),
    "gsm8k": Task(_data_set(GSM8K, 2048), _arithmetic_warmup, graded=True),
    # AIME's limit follows from the context: max_seq_len - 512, set by the profile.
    "aime2025": Task(_data_set(AIME2025, None), _arithmetic_warmup, graded=True),
}
"""Every task by its workload's name; a path is the only other workload."""
