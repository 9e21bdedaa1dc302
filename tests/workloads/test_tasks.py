"""Prompts: what a workload holds, and what a file that can't be used says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import workloads as tasks
import workloads.tasks as task_files
from tests.scoring.shared_files import shared
from workloads import Prompt, TaskError, load_prompts, perf_prompts, read_prompts, subset, subset_label, write_prompts
from workloads.problem_sets import check, normalise_gold, to_problem
from workloads.tasks.aime2025 import AIME2025
from workloads.tasks.gsm8k import GSM8K
from workloads.word_problems import word_problems

PERF = list(perf_prompts.TOKENS)


def measured(prompts: list[Prompt]) -> list[Prompt]:
    return [prompt for prompt in prompts if prompt.pool == "measure"]


def texts(prompts: list[Prompt]) -> list[str]:
    return [prompt.messages[-1]["content"] for prompt in prompts]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    for name, source in (("gsm8k", "data/gsm8k_test.jsonl"), ("aime2025", "data/aime2025.jsonl")):
        (tmp_path / f"{name}.jsonl").write_bytes(shared(source).read_bytes())
    return tmp_path


@pytest.mark.parametrize("workload", [*PERF, "arithmetic"])
def test_every_workload_has_a_warm_up_pool_that_is_never_measured(workload: str) -> None:
    prompts = load_prompts(workload)
    warmup = [prompt for prompt in prompts if prompt.pool == "warmup"]
    assert warmup and not set(texts(warmup)) & set(texts(measured(prompts)))
    assert len({prompt.prompt_id for prompt in prompts}) == len(prompts)


@pytest.mark.parametrize("workload", PERF)
def test_no_two_perf_prompts_begin_alike(workload: str) -> None:
    prompts = load_prompts(workload)
    openings = [tuple(text.split()[:2]) for text in texts(prompts)]
    assert len(set(openings)) == len(prompts)
    first = {
        pool: {text.split()[0] for text in texts([p for p in prompts if p.pool == pool])}
        for pool in ("measure", "warmup")
    }
    assert not first["measure"] & first["warmup"]
    distinct = len(first["measure"])
    assert len({text.split()[0] for text in texts(measured(prompts))[:distinct]}) == distinct > 150


@pytest.mark.parametrize("workload", PERF)
def test_a_perf_prompt_has_about_the_words_its_name_promises(workload: str) -> None:
    wanted = perf_prompts.TOKENS[workload]
    for text in texts(load_prompts(workload)):
        assert 0.85 * wanted < len(re.findall(r"\w+|[^\w\s]", text)) < 1.15 * wanted


def test_perf_prompts_follow_from_the_seed_alone() -> None:
    assert load_prompts("perf-medium", seed=1) == load_prompts("perf-medium", seed=1)
    assert not set(texts(load_prompts("perf-medium", seed=1))) & set(texts(load_prompts("perf-medium", seed=2)))
    assert load_prompts("perf-short", count=5)[:5] == load_prompts("perf-short")[:5]


def test_more_perf_prompts_than_can_open_differently_are_refused() -> None:
    with pytest.raises(TaskError, match="at most"):
        load_prompts("perf-short", count=10**6)


def test_arithmetic_answers_are_what_its_worked_solutions_come_to() -> None:
    problems = word_problems()
    assert len(problems) >= 48 and len({p.text for p in problems}) == len(problems)
    assert {p.steps for p in problems} == {1, 2, 3}
    for problem in problems:
        found = None
        for line in problem.solution:
            found = re.search(r"([\d+*/ -]+) = (\d+)", line)
            assert found and eval(found[1]) == int(found[2]), line
        assert len(problem.solution) == problem.steps
        assert found and problem.answer == int(found[2])


def test_arithmetic_prompts_ask_for_a_box_and_leave_room_for_one() -> None:
    for prompt in load_prompts("arithmetic"):
        assert prompt.messages[-1]["content"].endswith(tasks.INSTRUCTION) and prompt.max_tokens == 256


def test_the_public_sets_have_their_rows_and_golds(data_dir: Path) -> None:
    gsm8k, aime = (measured(load_prompts(name, data_dir=data_dir)) for name in ("gsm8k", "aime2025"))
    assert len(gsm8k) == 1319 and gsm8k[0].gold == "18" and gsm8k[0].max_tokens == 2048
    assert tuple(int(prompt.gold or "") for prompt in aime) == AIME2025.golds
    assert aime[0].max_tokens is None
    assert all(re.fullmatch(r"-?\d+", prompt.gold or "") for prompt in gsm8k + aime)


def test_worked_examples_come_as_turns_before_the_problem_and_are_not_in_the_set(data_dir: Path) -> None:
    plain, shot = (measured(load_prompts("gsm8k", data_dir=data_dir, few_shot=n)) for n in (0, 4))
    assert [m["role"] for m in shot[0].messages] == ["user", "assistant"] * 4 + ["user"]
    assert shot[0].messages[-1] == plain[0].messages[-1] and shot[0].sha256 != plain[0].sha256
    assert not {m["content"] for m in shot[0].messages[:-1]} & set(texts(plain))
    with pytest.raises(TaskError, match="few-shot"):
        load_prompts("perf-short", few_shot=2)


def test_a_set_that_is_not_there_names_the_file_to_place(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=re.escape(str(tmp_path / "gsm8k.jsonl"))) as caught:
        load_prompts("gsm8k", data_dir=tmp_path)
    assert "fetch gsm8k" in str(caught.value) and "\n" not in str(caught.value)


def test_a_set_with_a_row_missing_or_a_gold_changed_is_refused(data_dir: Path) -> None:
    path = data_dir / "aime2025.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join(lines[:-1]), encoding="utf-8")
    with pytest.raises(TaskError, match="29 rows, but aime2025 has 30"):
        load_prompts("aime2025", data_dir=data_dir)
    path.write_text("\n".join([*lines[:-1], lines[-1].replace('"240"', '"241"')]), encoding="utf-8")
    with pytest.raises(TaskError, match="golds are not those"):
        load_prompts("aime2025", data_dir=data_dir)


def test_a_set_that_changed_since_it_was_fetched_is_refused(data_dir: Path) -> None:
    (data_dir / "aime2025.fetch.json").write_text(json.dumps({"sha256": "0" * 64}), encoding="utf-8")
    with pytest.raises(TaskError, match="changed since it was fetched"):
        load_prompts("aime2025", data_dir=data_dir)


def test_a_form_feed_left_of_a_decoded_frac_is_found() -> None:
    with pytest.raises(TaskError, match=r"row 7: .*U\+000C"):
        to_problem({"problem": "Find $\frac{1}{2}$.", "answer": "1"}, 0, "aime2025", "row 7")
    assert to_problem({"question": "Two\nlines\tand a tab", "answer": 7}, 0, "x", "row").text


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("033", "33"),
        (70, "70"),
        ("70.0", "70"),
        ("She has 9 * 2 = 18.\n#### 1,450,000", "1450000"),
        ("#### -3", "-3"),
        ("#### \N{MINUS SIGN}3", "-3"),
        ("#### $12", "12"),
        ("0", "0"),
        ("7.5", None),
        ("seven", None),
        (None, None),
        (True, None),
    ],
)
def test_a_gold_is_an_integer_or_nothing(answer: object, gold: str | None) -> None:
    assert normalise_gold(answer) == gold


def test_two_rows_with_one_id_are_refused() -> None:
    row = to_problem({"id": "a", "problem": "x", "answer": "1"}, 0, "gsm8k", "row")
    with pytest.raises(TaskError, match="same id"):
        check(GSM8K, [row] * GSM8K.rows, "file")


def test_prompts_survive_the_workload_file(tmp_path: Path) -> None:
    prompts = [*load_prompts("arithmetic"), Prompt("odd", ({"role": "user", "content": "a\u2028b\x85c \U0001f600"},))]
    write_prompts(tmp_path / "w.jsonl", prompts)
    again = read_prompts(tmp_path / "w.jsonl")
    assert again == prompts and [p.sha256 for p in again] == [p.sha256 for p in prompts]


def test_the_hash_is_that_of_the_canonical_messages() -> None:
    one = Prompt("a", ({"role": "user", "content": "é"},))
    other = Prompt("b", ({"content": "é", "role": "user"},), gold="1")
    assert one.sha256 == other.sha256


def test_a_users_file_may_be_as_short_as_one_prompt(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "Hello"}\n\n{"prompt": "7 + 8?", "gold": 15, "max_tokens": 9}\n', encoding="utf-8")
    first, second = measured(load_prompts(str(path)))
    assert first == Prompt("1", ({"role": "user", "content": "Hello"},))
    assert (second.prompt_id, second.gold, second.max_tokens) == ("3", "15", 9)
    assert len(load_prompts(str(path))) > 2, "a warm-up pool was added"
    assert len(read_prompts(path)) == 2


def test_a_users_own_warm_up_rows_are_enough(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "a"}\n{"prompt": "b", "pool": "warmup"}\n', encoding="utf-8")
    assert [p.pool for p in load_prompts(str(path))] == ["measure", "warmup"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "no prompt to measure"),
        ('{"prompt": "a", "pool": "warmup"}', "no prompt to measure"),
        ("{", ":1: "),
        ("[1]", ":1: a JSON object was expected"),
        ('{"text": "a"}', "neither `prompt`"),
        ('{"messages": []}', "neither `prompt`"),
        ('{"messages": [{"role": "user"}]}', "`role` and `content`"),
        ('{"prompt": "  "}', "empty"),
        ('{"question": "a", "answer": "1"}', "enginebench fetch"),
        ('{"prompt": "a"}\n{"prompt": "b", "prompt_id": "1"}', "two prompts have the prompt_id '1'"),
        ('{"prompt": "a", "max_tokens": 0}', "`max_tokens`"),
        ('{"prompt": "a", "pool": "x"}', "`pool`"),
        ('{"prompt": "a", "gold": [1]}', "`gold`"),
        ('{"prompt": "a \\ud800"}', "surrogate"),
        ("[" * 100_000, ":1: nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_used_says_why_in_one_line(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(TaskError) as caught:
        load_prompts(str(path))
    assert says in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_workload_that_is_neither_task_nor_file_lists_the_tasks(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"no such prompts file.*arithmetic"):
        load_prompts("gsm9k")
    with pytest.raises(TaskError, match="can't read"):
        load_prompts(str(tmp_path))
    (tmp_path / "latin.jsonl").write_bytes(b'{"prompt": "\xe9"}')
    with pytest.raises(TaskError, match="not UTF-8"):
        load_prompts(str(tmp_path / "latin.jsonl"))


def test_a_subset_keeps_the_order_and_the_warm_up_pool() -> None:
    prompts = load_prompts("arithmetic")
    warmup = len(prompts) - len(measured(prompts))
    first = subset(prompts, first=12)
    assert measured(first) == measured(prompts)[:12] and len(first) == 12 + warmup
    sample = subset(prompts, sample=12, seed=3)
    assert len(measured(sample)) == 12 and sample == subset(prompts, sample=12, seed=3)
    assert sample != subset(prompts, sample=12, seed=4)
    order = [prompts.index(prompt) for prompt in measured(sample)]
    assert order == sorted(order)
    assert [subset_label(), subset_label(first=5), subset_label(sample=5, seed=2)] == [
        "all",
        "first 5",
        "sample of 5 (seed 2)",
    ]


@pytest.mark.parametrize("asked", [{"first": 0}, {"first": 10**6}, {"sample": -1}, {"first": 1, "sample": 1}])
def test_a_subset_that_cannot_be_had_is_refused(asked: dict[str, int]) -> None:
    with pytest.raises(TaskError, match="subset"):
        subset(load_prompts("arithmetic"), **asked)


def test_the_load_process_gets_its_prompts_from_the_standard_library_alone() -> None:
    code = (
        "import sys; from workloads import load_prompts; load_prompts('perf-long');"
        "print([m for m in sys.modules if m.split('.')[0] in ('numpy', 'pandas', 'datasets', 'scipy', 'locust')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_task_is_found_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "riddles.py").write_text(
        "from workloads.task import Task\nTASKS = {'riddles': Task(lambda options: [], graded=True)}\n"
    )
    monkeypatch.setattr(task_files, "__path__", [*task_files.__path__, str(tmp_path)])
    assert set(tasks._tasks()) == {*tasks.TASKS, "riddles"}
    monkeypatch.delitem(sys.modules, "workloads.tasks.riddles")
