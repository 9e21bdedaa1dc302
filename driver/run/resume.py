"""What a broken quality cell still owes: the prompts without an answer. (A broken perf cell starts again.)"""

from __future__ import annotations

from collections.abc import Iterable

from records import ASKED_AGAIN, CellFolder, read_records
from workloads import Prompt


def missing_prompts(folder: CellFolder, prompts: Iterable[Prompt], samples: int) -> list[Prompt]:
    """The measured prompts that lack one of their samples in the capture; the warm-up prompts as they are.

    An error that the engine itself gave is an answer and is not asked again; a request cut by the end of the run, of
    the engine or of the connection is.
    """
    answered: dict[str, set[int]] = {}
    if folder.requests.exists():
        for record in read_records(folder.requests):
            if record.measured and (record.ok or (record.error or {}).get("kind") not in ASKED_AGAIN):
                answered.setdefault(record.prompt_id, set()).add(record.sample)
    return [
        prompt for prompt in prompts if prompt.pool == "warmup" or len(answered.get(prompt.prompt_id, set())) < samples
    ]
