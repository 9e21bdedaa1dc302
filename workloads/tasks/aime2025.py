"""AIME 2025: the 30 problems of both days; every answer is an integer from 0 to 999."""

from workloads.problem_sets import DataSet, Source
from workloads.task import of_data_set

AIME2025 = DataSet(
    name="aime2025",
    sources=(
        Source("math-ai/aime25", (None,), "test", "563bb8404243c5f09de6ec262f2db674fe5bce9b"),
        Source("opencompass/AIME2025", ("AIME2025-I", "AIME2025-II"), "test", None),
    ),
    rows=30,
    golds=(
        *(70, 588, 16, 117, 279, 504, 821, 77, 62, 81, 259, 510, 204, 60, 735),  # AIME I
        *(468, 49, 82, 106, 336, 293, 237, 610, 149, 907, 113, 19, 248, 104, 240),  # AIME II
    ),
)

# The limit of an answer follows from the context: max_seq_len - 512, set by the profile.
TASKS = {"aime2025": of_data_set(AIME2025, None)}
