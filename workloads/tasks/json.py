"""json: 40 short texts to be put into JSON by a schema, which the request asks the engine to enforce."""

from __future__ import annotations

import json

from workloads.json_cases import JsonCase, json_cases
from workloads.prompts import MEASURE, WARMUP, Prompt
from workloads.task import Options, Task

MAX_TOKENS = 512


def _prompt(name: str, case: JsonCase, pool: str) -> Prompt:
    schema = json.dumps(case.schema)
    text = f"{case.text}\n\nSay this as JSON by the following schema. Answer with the JSON alone.\n{schema}"
    response_format = {
        "type": "json_schema",
        "json_schema": {"name": case.kind, "schema": case.schema, "strict": True},
    }
    return Prompt(
        name,
        ({"role": "user", "content": text},),
        json.dumps(case.value, ensure_ascii=False),
        "json",
        pool,
        MAX_TOKENS,
        request={"response_format": response_format},
        grader="json",
    )


def load(options: Options) -> list[Prompt]:
    """Every case, always the same ones."""
    return [_prompt(f"json-{place:02d}-{case.kind}", case, MEASURE) for place, case in enumerate(json_cases(), start=1)]


def warmup(options: Options) -> list[Prompt]:
    """Texts that no measured case has."""
    cases = json_cases(each=2, seed=12)
    return [_prompt(f"json-warmup-{place:02d}", case, WARMUP) for place, case in enumerate(cases, start=1)]


TASKS = {"json": Task(load, graded=True, warmup=warmup, takes_examples=False)}
