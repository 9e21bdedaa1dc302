"""GSM8K: 1,319 word problems of grade school (Cobbe et al., 2021)."""

from workloads.problem_sets import DataSet, Source
from workloads.task import of_data_set

GSM8K = DataSet(
    name="gsm8k",
    sources=(Source("openai/gsm8k", ("main",), "test", "cc7b047b6e5bb11b4f1af84efc572db110a51b3c"),),
    rows=1319,
)

TASKS = {"gsm8k": of_data_set(GSM8K, 2048)}
