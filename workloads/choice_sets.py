"""Multiple choice: rows of MMLU-Pro and GPQA, and files in their formats, as problems with a letter for a gold.

MMLU-Pro (Wang et al., 2024) has up to ten options, asked in their published order. GPQA (Rein et al., 2023) names the
right answer first, so its choices are shuffled from the seed; each prompt records the order. Standard library only.
"""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from records.files import parse_json
from workloads.problem_sets import DataSet, Problem, TaskError, load_problems, without_controls
from workloads.prompts import MEASURE, Message, Prompt
from workloads.task import Options, Task

LETTERS = "ABCDEFGHIJ"
INSTRUCTION = 'Think step by step, and end with "The answer is (X)", where X is the letter of one choice.'
COLUMNS = (
    *("question_id", "question", "options", "answer", "category", "id", "choices"),
    *("Record ID", "Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"),
)
"""The columns of both formats that are read."""
_GPQA = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def is_choice_row(row: Any) -> bool:
    """Whether a row is one of the formats that `to_choice_problem` takes."""
    if not isinstance(row, dict) or not ("question" in row or "Question" in row):
        return False
    return "Correct Answer" in row or "options" in row or "choices" in row


def to_choice_problem(row: Any, index: int, prefix: str, where: str) -> Problem:
    """Take a row of MMLU-Pro, of GPQA, or {question, choices, answer} with a letter or a place (from 0) for an answer.

    Control characters become spaces.

    Raises:
        TaskError: no question, not two to ten choices, or no answer among them.
    """
    if not is_choice_row(row):
        raise TaskError(f"{where}: no choices (`options`, `choices`, or `Correct Answer` as in GPQA)")
    question = row.get("question", row.get("Question"))
    if not isinstance(question, str) or not question.strip():
        raise TaskError(f"{where}: no text under `question`")
    if "Correct Answer" in row:
        choices: Any = [row.get(name) for name in _GPQA if row.get(name) not in (None, "")]
        answer: Any = 0 if row.get("Correct Answer") else None
    else:
        choices, answer = row.get("options", row.get("choices")), row.get("answer", row.get("gold"))
    if not isinstance(choices, list | tuple) or not all(isinstance(choice, str) for choice in choices):
        raise TaskError(f"{where}: the choices must be a list of texts")
    place = _place(answer)
    if place is None or place >= len(choices):
        raise TaskError(
            f"{where}: no answer among the {len(choices)} choices (a letter, or a place from 0): {answer!r}"
        )
    right = choices[place]
    # MMLU-Pro fills short lists up with N/A.
    choices = [choice for at, choice in enumerate(choices) if at == place or choice.strip() != "N/A"]
    if not 2 <= len(choices) <= len(LETTERS):
        raise TaskError(f"{where}: {len(choices)} choices; 2 to {len(LETTERS)} can have a letter")
    named = row.get("id", row.get("question_id", row.get("Record ID")))
    return Problem(
        str(named) if named not in (None, "") else f"{prefix}-{index + 1:04d}",
        without_controls(question),
        LETTERS[choices.index(right)],
        tuple(without_controls(choice) for choice in choices),
    )


def _place(answer: Any) -> int | None:
    if isinstance(answer, int) and not isinstance(answer, bool):
        return answer if answer >= 0 else None
    letter = answer.strip().strip("().").upper() if isinstance(answer, str) else ""
    return LETTERS.index(letter) if len(letter) == 1 and letter in LETTERS else None


def choice_prompt(problem: Problem, task: str, *, shuffle_seed: int | None, max_tokens: int | None) -> Prompt:
    """Ask a problem, its choices shuffled where a seed is given."""
    order = list(range(len(problem.choices)))
    if shuffle_seed is not None:
        random.Random(f"{task}/{shuffle_seed}/{problem.id}").shuffle(order)  # noqa: S311 (seeded)
    listed = "\n".join(f"{LETTERS[at]}. {problem.choices[place]}" for at, place in enumerate(order))
    message: Message = {"role": "user", "content": f"{problem.text}\n\n{listed}\n\n{INSTRUCTION}"}
    return Prompt(
        problem.id,
        (message,),
        LETTERS[order.index(LETTERS.index(problem.gold))],
        task,
        MEASURE,
        max_tokens,
        grader="choice",
        choice_order=tuple(order) if shuffle_seed is not None else None,
    )


def choice_task(data_set: DataSet, max_tokens: int, *, shuffled: bool) -> Task:
    """A task that asks the problems of a fetched set of choices."""

    def load(options: Options) -> list[Prompt]:
        seed = options.seed if shuffled else None
        problems = load_problems(data_set, options.data_dir)
        return [choice_prompt(p, data_set.name, shuffle_seed=seed, max_tokens=max_tokens) for p in problems]

    return Task(load, graded=True, data_set=data_set, takes_examples=False)


def read_choice_file(path: Path, seed: int) -> list[Prompt] | None:
    """The prompts of a user's file in GPQA's (CSV or JSONL) or MMLU-Pro's format; None where it is another file.

    Raises:
        TaskError: a row that cannot be used; the message names file and line.
    """
    prompts = []
    for number, row in _rows(path):
        if not is_choice_row(row):
            if path.suffix == ".csv":
                raise TaskError(f"{path}:{number}: no column `Correct Answer`: a CSV of prompts is in GPQA's format")
            return None
        problem = to_choice_problem(row, number - 1, path.stem, f"{path}:{number}")
        shuffled = seed if "Correct Answer" in row else None
        prompts.append(choice_prompt(problem, path.stem, shuffle_seed=shuffled, max_tokens=None))
    if len({prompt.prompt_id for prompt in prompts}) != len(prompts):
        raise TaskError(f"{path}: two rows have the same id")
    return prompts or None


def _rows(path: Path) -> Iterable[tuple[int, Any]]:
    """The rows with the number of the line on which each ends, as far as they are read; nothing of a broken file."""
    if not path.is_file():
        # A pipe would never end; `read_prompts` reports it.
        return
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return
    if path.suffix == ".csv":
        reader = csv.DictReader(io.StringIO(text))
        for row in reader:
            yield reader.line_num, row
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield number, parse_json(line)
            except ValueError:
                return
