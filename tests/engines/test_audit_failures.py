"""What voids a comparison, provoked on a real llama-server and found by the product's own run.

One run has an engine for each fault beside one without any; the split context and the client that is crowded out have
runs of their own. Nothing here is about speed: a slow machine makes it slow, not wrong.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.engines.helpers import smollm2
from tests.engines.run_path import Judged, bench, judged, start_bench

pytestmark = [pytest.mark.engines, pytest.mark.timeout(3300)]

# As SmolLM2's own, but it opens a think block before every answer and knows no switch for it.
THINKS = (
    "{%- for m in messages -%}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    '{% if m.role == "assistant" and m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>{% endif %}'
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
SHORT_ANSWERS = ("What is the capital of France? Answer with one word.", "What is 2 + 2? Answer with one number.")


@pytest.fixture(scope="module")
def llama_server() -> str:
    """llama-server b9371, built now where that was not done before; an engine's lines of a profile."""
    model = smollm2()
    bench("build", "--cpu")
    return (
        f'kind = "llama_cpp"\nmodel = {json.dumps(str(model))}\nbinary = "build"\nthreads = 1\ncores = "{cores()[0]}"'
    )


def cores() -> tuple[int, int]:
    """One core for the engine and one for the client; the same where there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


def profile(path: Path, engines: Sequence[str], cell: str, *, prompts: Sequence[str], top: str = "") -> Path:
    """Write a profile with one cell over the given prompts; returns its path."""
    path.mkdir(parents=True)
    asked = path / "asked.jsonl"
    asked.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in prompts))
    file = path / "faults.toml"
    head = f'name = "faults"\nbaseline = "plain"\nrounds = 1\n{top}'
    tables = [f"[[engines]]\n{engine}" for engine in engines]
    load = f'[[cells]]\nscenario = "single"\nworkload = {json.dumps(str(asked))}\ncores = "{cores()[1]}"\n{cell}'
    file.write_text("\n\n".join([head, *tables, load]) + "\n")
    return file


def run(file: Path) -> Judged:
    out = file.parent / "out"
    process = start_bench("run", str(file), "--run-id", "faults", "--out", str(out))
    told = process.communicate()
    assert process.returncode is not None
    assert (out / "faults").exists(), told
    return judged(out / "faults", process.returncode)


CELL = "single.asked"


@pytest.fixture(scope="module")
def faults(llama_server: str, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Five lives of llama-server, one without a fault, all asked the same two questions with a fixed length."""
    differences = {
        "plain": "",
        "cached": "request_extras = { cache_prompt = true }",
        "thinks": f"args = {json.dumps(['--chat-template', THINKS])}",
        "ends": "request_extras = { ignore_eos = false }",
        "other-template": 'args = ["--chat-template", "chatml"]',
    }
    engines = [f'name = "{name}"\nslots = 1\n{llama_server}\n{more}' for name, more in differences.items()]
    return run(
        profile(
            tmp_path_factory.mktemp("faults") / "run",
            engines,
            "max_tokens = 24\nfixed_length = true",
            prompts=SHORT_ANSWERS,
            top='max_seq_len = 1024\non_probe_failure = "void"',
        )
    )


def test_a_run_with_faults_is_void_in_its_first_line_and_its_exit_code(faults: Judged) -> None:
    assert faults.exit_code == 3
    assert faults.first_line.lstrip("# ").startswith("VOID")
    # A busy machine may make the client late or the load uneven, but nothing of what is provoked here.
    assert faults.failures("plain") <= {"client healthy", "concurrency achieved", "client and server agree"}


def test_a_prompt_cache_that_answers_is_found(faults: Judged) -> None:
    status, evidence = faults.finding("cache cold", "cached", CELL)
    assert (status, evidence.partition(",")[0]) == ("fail", "2 of 2 requests hit the cache")


def test_think_text_is_found_by_the_probe_and_in_the_answers(faults: Judged) -> None:
    assert faults.finding("thinking as asked", "thinks")[0] == "fail"
    assert faults.finding("thinking off", "thinks", CELL) == ("fail", "2 of 2 answers think")


def test_a_fixed_length_that_was_not_asked_of_the_engine_is_found(faults: Judged) -> None:
    status, evidence = faults.finding("fixed length obeyed", "ends", CELL)
    assert status == "fail"
    assert evidence.startswith("2 of 2 answers have") and evidence.endswith("instead of 24")
    assert faults.finding("fixed length obeyed", "plain", CELL)[0] == "pass"


def test_another_chat_template_is_found_by_the_probe_and_in_the_requests(faults: Judged) -> None:
    assert faults.finding("same prompt tokens in the probe", "other-template")[0] == "fail"
    status, evidence = faults.finding("same prompt tokens", "other-template", CELL)
    assert status == "fail"
    assert evidence.startswith("2 of 2 prompts differ")


# The reference run's first mistake: `-c` is divided among the slots.
SPLIT = 'name = "plain"\nslots = 4\nargs = ["-c", "4096", "--parallel", "4"]\n'


def test_a_context_split_among_slots_is_refused_before_anything_is_measured(llama_server: str, tmp_path: Path) -> None:
    file = profile(
        tmp_path / "run", [SPLIT + llama_server], "max_tokens = 8", prompts=SHORT_ANSWERS, top="max_seq_len = 4096"
    )
    told = bench("run", str(file), "--run-id", "split", "--out", str(tmp_path / "out"), codes=(3,))
    assert "plain: each slot has 1,024 tokens of context; the profile asks for 4,096" in told
    assert not list((tmp_path / "out").rglob("requests.jsonl"))


def test_a_context_split_among_slots_is_void_and_names_the_context_of_a_slot(llama_server: str, tmp_path: Path) -> None:
    # About 950 tokens, so that a slot of 1,024 has no room for the answer.
    long = "Continue this list for ever: " + "apple " * 900
    top = 'max_seq_len = 4096\non_probe_failure = "void"'
    cell = "max_tokens = 128\nfixed_length = true"
    found = run(profile(tmp_path / "run", [SPLIT + llama_server], cell, prompts=[long], top=top))
    assert found.exit_code == 3
    assert found.first_line.lstrip("# ").startswith("VOID")
    evidence = "each slot has 1,024 tokens; the profile asks for 4,096"
    assert found.finding("context per slot", "plain") == ("fail", evidence)
    status, evidence = found.finding("not cut at the context", "plain", CELL)
    assert status == "fail"
    assert evidence.endswith("(finish=length), 128 were allowed; each slot has 1,024 tokens of context")


def test_a_client_whose_core_others_burn_is_found(llama_server: str, tmp_path: Path) -> None:
    if cores()[0] == cores()[1]:
        pytest.skip("needs two cores: the engine must not be slowed along with the client")
    file = profile(
        tmp_path / "run",
        [f'name = "plain"\nslots = 1\n{llama_server}'],
        "max_tokens = 32\nfixed_length = true",
        prompts=[f"{word} apples and {word} pears: how many?" for word in ("Two", "Three", "Four")],
        top="max_seq_len = 512",
    )
    out = tmp_path / "out"
    with start_bench("run", str(file), "--run-id", "crowded", "--out", str(out)) as process:
        capture = out / "crowded" / "plain" / "r1" / CELL / "requests.jsonl"
        wait_for(capture, process)
        with burning(cores()[1], crowd_out=load_process(process)):
            wait_for(capture, process, lines=3)
        told = process.communicate()
    assert process.returncode == 3, told
    status, evidence = judged(out / "crowded", 3).finding("client healthy", "plain", CELL)
    assert status == "fail", evidence
    assert "loop lag p99" in evidence


def wait_for(path: Path, process: subprocess.Popen[str], lines: int = 0) -> None:
    """Until the file is there and has so many lines, or the process has ended."""
    while process.poll() is None and not (path.exists() and path.read_bytes().count(b"\n") >= lines):
        time.sleep(0.05)


def load_process(driver: subprocess.Popen[str]) -> psutil.Process:
    """The driver's locust; processes may come and go while one looks."""
    while driver.poll() is None:
        with suppress(psutil.Error):
            for child in psutil.Process(driver.pid).children(recursive=True):
                if "locust" in child.cmdline():
                    return child
        time.sleep(0.05)
    raise AssertionError(driver.communicate())


@contextmanager
def burning(core: int, *, crowd_out: psutil.Process) -> Iterator[None]:
    """Busy processes on a core where the client has the least claim: with an equal one it is woken in time."""
    spin = f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile os.getppid() == {os.getpid()}: pass"
    # A session of its own each: some kernels share a core out by session first.
    burners = [subprocess.Popen([sys.executable, "-c", spin], start_new_session=True) for _ in range(8)]
    set_claim(crowd_out, 19)
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
        if crowd_out.is_running() and os.geteuid() == 0:
            set_claim(crowd_out, 0)


def set_claim(process: psutil.Process, nice: int) -> None:
    """How little of a core it may claim; where the kernel shares a core out by session, that of its session."""
    process.nice(nice)
    session = Path(f"/proc/{process.pid}/autogroup")
    if session.exists():
        session.write_text(str(nice))
