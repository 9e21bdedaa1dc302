"""Tool calls and JSON by schema from a real llama.cpp with SmolLM2: streamed, kept, timed and graded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.process.port import free_port
from records import Record
from records.latency_definitions import timing
from scoring.answers.extract import Fault
from scoring.answers.graders import Reply, judge
from tests.engines.by_hand import wait_until_up
from tests.engines.helpers import ROOT, smollm2
from tests.load.load import finish, start
from workloads import Prompt, load_prompts, write_prompts
from workloads.tool_cases import tool

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1800)]

TEMPLATE = (
    "{%- if tools %}{{- '<|im_start|>system\\n<tools>' }}{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}"
    '{%- endfor %}{{- \'\\n</tools>\\nWrite <tool_call>\\n{"name": <name>, "arguments": <object>}\\n</tool_call>'
    "<|im_end|>\\n' }}{%- endif %}"
    "{%- for message in messages %}{%- if message.tool_calls %}{{- '<|im_start|>assistant' }}"
    '{%- for call in message.tool_calls %}{{- \'\\n<tool_call>\\n{"name": "\' }}{{- call.function.name }}'
    "{{- '\", \"arguments\": ' }}{{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}{%- endfor %}"
    "{{- '<|im_end|>\\n' }}{%- else %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
"""SmolLM2's own template has no tools, and the server drops them without a word."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log, port = tmp_path_factory.mktemp("server") / "server.log", free_port()
    argv = [sys.executable, "-m", "engines.process.wheel_server", "--model", str(smollm2()), "--host", "127.0.0.1"]
    argv += ["--port", str(port), "-np", "1", "-c", "2048", "-t", "1", "--chat-template", TEMPLATE]
    with log.open("wb") as told, subprocess.Popen(argv, cwd=ROOT, stdout=told, stderr=told) as process:
        wait_until_up(process, f"http://127.0.0.1:{port}", log)
        yield f"http://127.0.0.1:{port}"
        process.terminate()


def asked(url: str, folder: Path, prompts: list[Prompt]) -> list[tuple[Prompt, Record]]:
    write_prompts(folder / "prompts.jsonl", prompts)
    options = ("--prompts", str(folder / "prompts.jsonl"), "--request-extras", '{"cache_prompt": false}')
    outcome = finish(start("single", url, folder / "out", *options), folder / "out", timeout_s=1500)
    assert outcome.code == 0, outcome.stderr[-2000:]
    by_id = {record.prompt_id: record for record in outcome.measured}
    return [(prompt, by_id[prompt.prompt_id]) for prompt in prompts]


def weather_prompt(city: str) -> Prompt:
    """A question that a model of 135 million parameters calls a function for: it has seen four such before."""
    messages: list[dict[str, str]] = []
    for seen in ("Oslo", "Paris", "Lima", "Cairo"):
        call = json.dumps({"name": "get_weather", "arguments": {"city": seen}})
        messages += [
            {"role": "user", "content": f"What is the weather in {seen}?"},
            {"role": "assistant", "content": f"<tool_call>\n{call}\n</tool_call>"},
        ]
    messages.append({"role": "user", "content": f"What is the weather in {city}?"})
    request = {"tools": [tool("get_weather"), tool("get_stock")], "tool_choice": "required"}
    gold = json.dumps([{"name": "get_weather", "arguments": {"city": city}}])
    return Prompt(city, tuple(messages), gold, max_tokens=128, request=request, grader="tools")


def test_calls_of_a_real_engine_are_kept_timed_and_graded(url: str, tmp_path: Path) -> None:
    pairs = asked(url, tmp_path, [weather_prompt(city) for city in ("Rome", "Madrid", "Berlin")])
    for prompt, record in pairs:
        assert record.finish_reason == "tool_calls" and record.text == ""
        assert [call["name"] for call in record.tool_calls] == ["get_weather"]
        assert len(record.chunk_ns) > 3 and record.chunk_ns == sorted(record.chunk_ns)
        measured = timing(record)
        assert measured.ttft_ms is not None and measured.e2e_ms is not None
        assert measured.ttft_ms == measured.ttfa_ms
        assert measured.ttft_ms < measured.e2e_ms
        grade = judge(prompt, Reply(record.text, record.finish_reason, record.tool_calls))
        assert grade.fault not in (Fault.NOT_JSON, Fault.SCHEMA, Fault.FUNCTION)
    assert any(judge(p, Reply(r.text, r.finish_reason, r.tool_calls)).strict for p, r in pairs)


def test_json_by_a_schema_is_valid_every_time(url: str, tmp_path: Path) -> None:
    prompts = [prompt for prompt in load_prompts("json") if prompt.pool == "measure"][:10]
    for prompt, record in asked(url, tmp_path, prompts):
        grade = judge(prompt, Reply(record.text, record.finish_reason))
        assert grade.fault in (None, Fault.VALUES), (record.text, grade)
        assert grade.method == "json" and not grade.truncated
