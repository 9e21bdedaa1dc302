"""Conversations on the real llama.cpp of the wheel: what its cache holds is what was said before, and off is off."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.process.port import free_port
from records import CellFolder
from scoring.captures import load_capture
from scoring.speed.reuse import add_reuse
from tests.engines.by_hand import wait_until_up
from tests.engines.helpers import ROOT, smollm2
from tests.load.load import finish, start
from workloads.synthetic import Lengths, synthetic_prompts

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1200)]

TEMPLATE_HEAD = 24
"""Tokens of SmolLM2's chat template before the first question: its system message."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port, log = free_port(), tmp_path_factory.mktemp("server") / "server.log"
    argv = [sys.executable, "-m", "engines.process.wheel_server", "--model", str(smollm2()), "--port", str(port)]
    argv += ["--parallel", "1", "--ctx-size", "1024", "--threads", "1", "--cache"]
    with log.open("wb") as told, subprocess.Popen(argv, stdout=told, stderr=told, cwd=ROOT) as process:
        try:
            wait_until_up(process, f"http://127.0.0.1:{port}", log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.mark.parametrize(("cache", "carry"), [(False, "fixed"), (True, "fixed"), (True, "real")])
def test_each_turn_finds_the_turn_before_in_the_cache_and_nothing_else(
    url: str, tmp_path: Path, *, cache: bool, carry: str
) -> None:
    name = f"talk-{cache}-{carry}"  # texts of their own: the server lives through all cases
    prompts = synthetic_prompts(name, Lengths(12, 6, turns=4), seed=1, count=2, warmup=1)
    file = tmp_path / f"{name}.jsonl"
    file.write_text("".join(json.dumps(prompt.to_row()) + "\n" for prompt in prompts))
    options = ["--prompts", str(file), "--warmup", "1", "--max-tokens", "6", "--fixed-length", "--carry", carry]
    extras = {"ENGINEBENCH_REQUEST_EXTRAS": json.dumps({"cache_prompt": cache})}
    outcome = finish(start("single", url, tmp_path / "out", *options, env=extras), tmp_path / "out", timeout_s=900)
    assert outcome.code == 0, outcome.stderr[-2000:]
    capture = load_capture(CellFolder(tmp_path / "out"), "e", 1)
    add_reuse(capture, prompts)
    measured = capture.measured
    assert measured["turn"].tolist() == [1, 2, 3, 4] * 2
    cached, reusable = (measured[column].tolist() for column in ("found_tokens", "reusable_tokens"))
    if not cache:
        assert cached == [0.0] * 8
    elif carry == "fixed":
        assert cached == [
            TEMPLATE_HEAD if turn == 1 else tokens for turn, tokens in zip(measured["turn"], reusable, strict=True)
        ]
    else:
        # The last token of an answer is never in the cache, and text does not always come back as the same tokens.
        prompt = measured["prompt_tokens"].tolist()
        assert all(prompt[n - 1] <= cached[n] <= reusable[n] for n in range(8) if n % 4)
