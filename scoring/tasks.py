"""What is asked: tasks and their prompts, as every stage and the load process read them. Standard library only.

A new task is one entry in `TASKS`: how its prompts are loaded (with their golds) and how an answer to it is graded.
Everything after `load_prompts` sees the same rows, whatever they come from: the workload file
(`workloads/<workload>.jsonl`) has one `Prompt` a line.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scoring import _perf_prompts
from scoring._arithmetic import word_problems
from scoring._datasets import AIME2025, GSM8K, DataSet, TaskError, default_data_dir, load_problems

__all__ = [
    "INSTRUCTION",
    "TASKS",
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

MEASURE, WARMUP = "measure", "warmup"

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One thing to ask. `gold` is None where nothing is graded; `max_tokens` None leaves it to the profile."""

    prompt_id: str
    messages: tuple[Message, ...]
    gold: str | None = None
    task: str = "jsonl"
    pool: str = MEASURE
    max_tokens: int | None = None

    @property
    def sha256(self) -> str:
        """Hash of the messages as canonical ASCII JSON: the same text gives the same hash wherever it is read."""
        canonical = json.dumps(list(self.messages), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()

    def to_row(self) -> dict[str, Any]:
        """The prompt as a row of a workload file."""
        return {
            "prompt_id": self.prompt_id,
            "messages": list(self.messages),
            "gold": self.gold,
            "task": self.task,
            "pool": self.pool,
            "max_tokens": self.max_tokens,
        }


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


def read_prompts(path: Path) -> list[Prompt]:
    """Read a workload file or a user's own JSONL, in file order; nothing is added.

    A row has `prompt` (a string) or `messages`, and may have prompt_id, gold, task, pool and max_tokens.

    Raises:
        TaskError: the file can't be read, is empty, or a row can't be used; the message names file and line.
    """
    try:
        content = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise TaskError(f"{path}: no such prompts file, and no task of that name ({', '.join(TASKS)})") from None
    except OSError as error:
        raise TaskError(f"{path}: can't read the prompts: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: not UTF-8 (byte {error.start})") from None
    prompts = []
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            try:
                prompts.append(_from_row(json.loads(line), number))
            except ValueError as error:
                raise TaskError(f"{path}:{number}: {error}") from None
    if not any(prompt.pool == MEASURE for prompt in prompts):
        raise TaskError(f"{path}: holds no prompt to measure")
    seen: set[str] = set()
    for prompt in prompts:
        if prompt.prompt_id in seen:
            raise TaskError(f"{path}: two prompts have the prompt_id {prompt.prompt_id!r}")
        seen.add(prompt.prompt_id)
    return prompts


def to_lines(prompts: Iterable[Prompt]) -> str:
    """The text of a workload file."""
    return "".join(json.dumps(prompt.to_row(), separators=(",", ":")) + "\n" for prompt in prompts)


def write_prompts(path: Path, prompts: Iterable[Prompt]) -> None:
    """Write a workload file, whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_text(to_lines(prompts), encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


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


def repeated(prompts: Sequence[Prompt], samples: int = 1) -> list[tuple[Prompt, int]]:
    """Every measured prompt with its sample number, 0 to k-1; all problems once before any comes again."""
    measured = [prompt for prompt in prompts if prompt.pool == MEASURE]
    return [(prompt, sample) for sample in range(samples) for prompt in measured]


def _from_row(row: Any, number: int) -> Prompt:
    """Check one row.

    Raises:
        ValueError: it can't be used; the message says why, without the place.
    """
    if not isinstance(row, dict):
        raise ValueError("a JSON object was expected")
    messages = row.get("messages")
    if messages is None and isinstance(row.get("prompt"), str):
        messages = [{"role": "user", "content": row["prompt"]}]
    if messages is None and ("question" in row or "problem" in row):
        raise ValueError("this is a row of a data set; its prompts come by the task's name (see `enginebench fetch`)")
    if not isinstance(messages, list) or not messages:
        raise ValueError("neither `prompt` (a string) nor `messages` (a list) to ask")
    for message in messages:
        if not isinstance(message, dict) or not all(isinstance(message.get(key), str) for key in ("role", "content")):
            raise ValueError("each message needs `role` and `content`, both strings")
    if not messages[-1]["content"].strip():
        raise ValueError("the last message is empty")
    try:
        json.dumps(messages, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("the text holds half a surrogate pair, which can't be sent as UTF-8") from None
    gold = row.get("gold")
    if gold is not None and (isinstance(gold, bool) or not isinstance(gold, str | int | float)):
        raise ValueError("`gold` must be a string or a number")
    pool = row.get("pool", MEASURE)
    if pool not in (MEASURE, WARMUP):
        raise ValueError(f"`pool` must be {MEASURE} or {WARMUP}, not {pool!r}")
    max_tokens = row.get("max_tokens")
    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1):
        raise ValueError("`max_tokens` must be a whole number of at least 1")
    return Prompt(
        prompt_id=str(row.get("prompt_id", number)),
        messages=tuple(messages),
        gold=None if gold is None else str(gold),
        task=str(row.get("task", "jsonl")),
        pool=pool,
        max_tokens=max_tokens,
    )


def _user_file(path: str) -> list[Prompt]:
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
