"""What a task is, and how the graded ones put a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workloads.problem_sets import DataSet, load_problems
from workloads.prompts import MEASURE, WARMUP, Message, Prompt
from workloads.word_problems import word_problems

INSTRUCTION = "Please reason step by step, and put your final answer within \\boxed{}."


@dataclass(frozen=True, slots=True)
class Options:
    """What a task's loader may take into account."""

    seed: int = 0
    data_dir: Path | None = None
    few_shot: int = 0
    count: int | None = None


def ask(text: str, few_shot: int = 0) -> tuple[Message, ...]:
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


def warmup_problems(options: Options) -> list[Prompt]:
    """Problems about people who are in no measured problem; what every graded task warms up with."""
    people = ("Anselm", "Brigid", "Cosima", "Dario", "Eskil", "Fenna", "Gwen", "Henrik")
    problems = word_problems(32, seed=1, names=people)
    return [
        Prompt(f"warmup-{i:02d}", ask(p.text, options.few_shot), str(p.answer), "arithmetic", WARMUP, 256)
        for i, p in enumerate(problems, start=1)
    ]


@dataclass(frozen=True, slots=True)
class Task:
    """One task: its measured prompts, and whether `scoring.answers.extract.grade` has an answer to judge."""

    load: Callable[[Options], list[Prompt]]
    graded: bool
    warmup: Callable[[Options], list[Prompt]] = warmup_problems
    """Prompts that are never measured, so that nothing measured is in a cache beforehand."""
    data_set: DataSet | None = None
    """What `fetch` brings for it."""
    takes_examples: bool = True
    """Whether worked examples (few-shot) can come before its problems; they are word problems."""


def of_data_set(data_set: DataSet, max_tokens: int | None) -> Task:
    """A graded task that asks the problems of a fetched set, with a limit of so many tokens (None: the profile's)."""

    def load(options: Options) -> list[Prompt]:
        return [
            Prompt(p.id, ask(p.text, options.few_shot), p.gold, data_set.name, MEASURE, max_tokens)
            for p in load_problems(data_set, options.data_dir)
        ]

    return Task(load, graded=True, data_set=data_set)
