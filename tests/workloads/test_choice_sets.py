"""Multiple choice: rows of MMLU-Pro and GPQA become prompts whose gold is the letter under which the answer stands."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import workloads
from workloads import Prompt, TaskError, load_prompts, read_prompts, write_prompts
from workloads.choice_sets import choice_task, to_choice_problem
from workloads.fetch import fetch
from workloads.task import Options
from workloads.tasks.gpqa import GPQA_DIAMOND
from workloads.tasks.mmlu_pro import MMLU_PRO

MMLU_ROWS = [
    {"question_id": 70, "question": "Even?", "options": ["1", "3", "4", "N/A"], "answer": "C", "answer_index": 2,
     "category": "math"},
    {"question_id": 71, "question": "Last letter?", "options": list("abcdefghij"), "answer": "J", "answer_index": 9,
     "category": "other"},
]  # fmt: skip
GPQA_ROWS = [
    {
        "Record ID": f"rec{n}",
        "Question": f'Question {n}, with a comma, "quotes"\nand a second line?',
        "Correct Answer": f"right {n}",
        "Incorrect Answer 1": f"wrong {n} a",
        "Incorrect Answer 2": f"wrong {n} b",
        "Incorrect Answer 3": f"wrong {n} c",
    }
    for n in range(30)
]


def gpqa_file(path: Path, rows: list[dict[str, str]] = GPQA_ROWS) -> Path:
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def jsonl(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def measured(prompts: list[Prompt]) -> list[Prompt]:
    return [prompt for prompt in prompts if prompt.pool == "measure"]


def under_gold(prompt: Prompt) -> str:
    (line,) = (line for line in prompt.messages[-1]["content"].splitlines() if line.startswith(f"{prompt.gold}. "))
    return line.removeprefix(f"{prompt.gold}. ")


def test_a_file_in_gpqas_format_is_shuffled_from_the_seed_and_the_order_is_kept(tmp_path: Path) -> None:
    file = gpqa_file(tmp_path / "gpqa.csv")
    prompts = measured(load_prompts(str(file), seed=3))
    assert [under_gold(prompt) for prompt in prompts] == [row["Correct Answer"] for row in GPQA_ROWS]
    assert len({prompt.gold for prompt in prompts}) == 4
    for prompt in prompts:
        assert prompt.choice_order is not None and "ABCD"[prompt.choice_order.index(0)] == prompt.gold
    assert prompts == measured(load_prompts(str(file), seed=3))
    other = measured(load_prompts(str(file), seed=4))
    assert [prompt.gold for prompt in other] != [prompt.gold for prompt in prompts]
    write_prompts(tmp_path / "workload.jsonl", prompts)
    assert read_prompts(tmp_path / "workload.jsonl") == prompts


def test_the_order_of_one_question_does_not_depend_on_the_others(tmp_path: Path) -> None:
    whole = measured(load_prompts(str(gpqa_file(tmp_path / "gpqa.csv"))))
    (tmp_path / "part").mkdir()
    part = measured(load_prompts(str(gpqa_file(tmp_path / "part" / "gpqa.csv", GPQA_ROWS[7:9]))))
    assert part == whole[7:9]


def test_a_file_in_mmlu_pros_format_keeps_its_order_and_leaves_fillers_out(tmp_path: Path) -> None:
    first, second = measured(load_prompts(str(jsonl(tmp_path / "mmlu.jsonl", MMLU_ROWS))))
    assert (first.prompt_id, first.gold, under_gold(first), first.choice_order) == ("70", "C", "4", None)
    assert "N/A" not in first.messages[-1]["content"]
    assert (second.gold, under_gold(second), second.grader) == ("J", "j", "choice")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"question": "?", "choices": ["a"], "answer": "A"}, "1 choices"),
        ({"question": "?", "choices": ["a", "b"], "answer": "C"}, "no answer among the 2"),
        ({"question": "?", "choices": ["a", "b"], "answer": -1}, "no answer among"),
        ({"question": "?", "choices": ["a", "b"], "answer": True}, "no answer among"),
        ({"question": "?", "choices": "ab", "answer": "A"}, "list of texts"),
        ({"question": " ", "choices": ["a", "b"], "answer": "A"}, "no text"),
        ({"question": "?", "choices": list("abcdefghijk"), "answer": "A"}, "11 choices"),
        ({"Question": "?", "Correct Answer": "", "Incorrect Answer 1": "b"}, "no answer among"),
    ],
)
def test_a_row_that_cannot_be_asked_is_named(tmp_path: Path, row: dict[str, Any], told: str) -> None:
    file = jsonl(tmp_path / "rows.jsonl", [MMLU_ROWS[0], row])
    with pytest.raises(TaskError, match=rf"rows\.jsonl:2: .*{told}"):
        load_prompts(str(file))


def test_an_answer_may_be_a_letter_or_a_place(tmp_path: Path) -> None:
    for answer in ("B", "(b)", "B.", 1):
        row = {"question": "?", "choices": ["a", "b"], "answer": answer}
        assert to_choice_problem(row, 0, "x", "here").gold == "B"


def test_a_table_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.csv"
    file.write_text("Question,Answer\n?,4\n")
    with pytest.raises(TaskError, match="GPQA's format"):
        load_prompts(str(file))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_gpqa_is_imported_from_a_local_copy(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(GPQA_DIAMOND, rows=len(GPQA_ROWS))
    monkeypatch.setitem(workloads.DATA_SETS, "gpqa_diamond", small)
    source = tmp_path / f"copy.{ending}"
    if ending == "csv":
        gpqa_file(source)
    elif ending == "jsonl":
        jsonl(source, GPQA_ROWS)
    else:
        import pandas as pd

        pd.DataFrame(GPQA_ROWS).to_parquet(source)
    result = fetch("gpqa_diamond", tmp_path / "data", source_file=source)
    assert result.rows == len(GPQA_ROWS)
    prompts = choice_task(small, 64, shuffled=True).load(Options(seed=1, data_dir=tmp_path / "data"))
    assert [under_gold(prompt) for prompt in prompts] == [row["Correct Answer"] for row in GPQA_ROWS]


def test_mmlu_pro_is_taken_at_its_pin_and_a_set_of_another_size_is_refused(tmp_path: Path) -> None:
    asked = []

    def load(source: Any, config: Any) -> list[dict[str, Any]]:
        asked.append((source.repo, source.split, source.revision, config))
        return MMLU_ROWS

    with pytest.raises(TaskError, match="2 rows, but mmlu_pro has 12032"):
        fetch("mmlu_pro", tmp_path, load=load)
    (source,) = MMLU_PRO.sources
    assert asked == [("TIGER-Lab/MMLU-Pro", "test", source.revision, None)] and len(source.revision or "") == 40
