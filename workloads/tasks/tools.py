"""tools: 60 requests with functions that can be called. Right is who calls the right ones with the right arguments."""

from __future__ import annotations

import json

from workloads.prompts import MEASURE, WARMUP, Prompt
from workloads.task import Options, Task
from workloads.tool_cases import SYSTEM, ToolCase, tool, tool_cases

MAX_TOKENS = 256


def _prompt(name: str, case: ToolCase, pool: str) -> Prompt:
    messages = ({"role": "system", "content": SYSTEM}, {"role": "user", "content": case.text})
    gold = json.dumps(case.calls, ensure_ascii=False)
    return Prompt(name, messages, gold, "tools", pool, MAX_TOKENS, request=case.request, grader="tools")


def load(options: Options) -> list[Prompt]:
    """Every case, always the same ones."""
    return [
        _prompt(f"tools-{place:02d}-{case.kind}", case, MEASURE) for place, case in enumerate(tool_cases(), start=1)
    ]


def warmup(options: Options) -> list[Prompt]:
    """Requests with functions that no measured case has."""
    cities = ("Bergen", "Cadiz", "Dakar", "Essen", "Fez", "Gdansk", "Hanoi", "Izmir")
    request = {"tools": [tool("get_weather")], "tool_choice": "auto"}
    return [
        Prompt(
            f"tools-warmup-{place}",
            ({"role": "user", "content": f"{city}: how is the weather there?"},),
            json.dumps([{"name": "get_weather", "arguments": {"city": city}}]),
            "tools",
            WARMUP,
            MAX_TOKENS,
            request=request,
            grader="tools",
        )
        for place, city in enumerate(cities, start=1)
    ]


TASKS = {"tools": Task(load, graded=True, warmup=warmup, takes_examples=False)}
