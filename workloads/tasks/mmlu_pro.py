"""MMLU-Pro: 12,032 questions with up to ten choices (Wang et al., 2024)."""

from workloads.choice_sets import COLUMNS, choice_task, to_choice_problem
from workloads.problem_sets import DataSet, Source

MMLU_PRO = DataSet(
    name="mmlu_pro",
    sources=(Source("TIGER-Lab/MMLU-Pro", (None,), "test", "b189ec765aa7ed75c8acfea42df31fdae71f97be"),),
    rows=12_032,
    columns=COLUMNS,
    read=to_choice_problem,
)

TASKS = {"mmlu_pro": choice_task(MMLU_PRO, 2048, shuffled=False)}
