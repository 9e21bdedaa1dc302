"""GPQA Diamond: 198 questions for experts with four choices (Rein et al., 2023).

The set is gated: its authors ask that no copy of it is shown in the open, so a fetch needs a token of the hub.
"""

from workloads.choice_sets import COLUMNS, choice_task, to_choice_problem
from workloads.problem_sets import DataSet, Source

GPQA_DIAMOND = DataSet(
    name="gpqa_diamond",
    sources=(Source("Idavidrein/gpqa", ("gpqa_diamond",), "train", None),),
    rows=198,
    columns=COLUMNS,
    read=to_choice_problem,
)

TASKS = {"gpqa_diamond": choice_task(GPQA_DIAMOND, 4096, shuffled=True)}
