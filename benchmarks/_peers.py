"""Other load clients, each in a virtual environment of its own: how they are asked, and where they leave their figures.

Their versions were those of the table in docs/client-benchmarks.md; their files change between versions.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, ClassVar

from benchmarks._clients import Client, Job, Told
from benchmarks._harness import Ran
from records import read_json

PROMPT_TOKENS = 64


class Peer(Client):
    """A client of another project; `venv` is the environment that it is installed in."""

    package: ClassVar[str]

    def __init__(self, venv: Path) -> None:
        self.venv = venv.absolute()

    def program(self, name: str) -> str:
        return str(self.venv / "bin" / name)

    def env(self, job: Job) -> dict[str, str]:
        # None of them has anything to fetch.
        return {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "NO_COLOR": "1"}

    def version(self) -> str:
        code = f"import importlib.metadata as m; print(m.version({self.package!r}))"
        done = subprocess.run([self.program("python"), "-c", code], capture_output=True, text=True, check=False)
        return done.stdout.strip() or "unknown"


class Evalscope(Peer):
    """evalscope perf."""

    name = "evalscope perf"
    package = "evalscope"

    def argv(self, job: Job) -> list[str]:
        prompts = job.folder / "prompts.txt"
        lines = (f"Tell me a story about lighthouse number {n} and the sea, please.\n" for n in range(job.requests))
        prompts.write_text("".join(lines))
        return [
            self.program("evalscope"), "perf", "--url", f"{job.url}/v1/chat/completions", "--api", "openai", "--model",
            job.model, "--parallel", str(job.streams), "-n", str(job.requests), "--dataset", "line_by_line",
            "--dataset-path", str(prompts), "--max-tokens", str(job.tokens), "--stream", "--outputs-dir",
            str(job.folder / "out"), "--no-timestamp", "--no-test-connection", "--total-timeout", "60",
        ]  # fmt: skip

    def read(self, job: Job, ran: Ran) -> Told:
        summaries = list((job.folder / "out").rglob("benchmark_summary.json"))
        if not summaries:
            return Told(0, job.requests)
        summary = read_json(summaries[0])
        by_rank = {}
        for path in summaries[0].parent.glob("benchmark_percentile.json"):
            by_rank = {row["Percentiles"]: row for row in json.loads(path.read_text())}
        told = {}
        if by_rank:
            told = {
                "ttft_ms_p50": by_rank["50%"]["TTFT (ms)"],
                "ttft_ms_p99": by_rank["99%"]["TTFT (ms)"],
                "tpot_ms_p50": by_rank["50%"]["TPOT (ms)"],
            }
        return Told(summary["Success Requests"], summary["Failed Requests"], summary=told)


class Aiperf(Peer):
    """aiperf profile."""

    name = "aiperf"
    package = "aiperf"

    def env(self, job: Job) -> dict[str, str]:
        # Told to stay offline, it takes a tokenizer's folder for the name of one to be fetched.
        return {"NO_COLOR": "1"}

    def argv(self, job: Job) -> list[str]:
        return [
            self.program("aiperf"), "profile", "--model", job.model, "--url", job.url, "--endpoint-type", "chat",
            "--streaming", "--concurrency", str(job.streams), "--request-count", str(job.requests), "--tokenizer",
            str(tokenizer(job.folder)), "--use-server-token-count", "--isl", str(PROMPT_TOKENS), "--osl",
            str(job.tokens), "--ui", "none", "--request-timeout-seconds", "60", "--artifact-dir",
            str(job.folder / "out"),
        ]  # fmt: skip

    def read(self, job: Job, ran: Ran) -> Told:
        path = job.folder / "out" / "profile_export_aiperf.json"
        if not path.exists():
            return Told(0, job.requests)
        found = read_json(path)
        ok = int((found.get("request_count") or {}).get("avg") or 0)
        failed = int((found.get("error_request_count") or {}).get("avg") or 0)
        failed = failed or sum(int(row.get("count", 0)) for row in found.get("error_summary") or [])
        return Told(ok, failed, summary=_summary(found.get("time_to_first_token"), found.get("inter_token_latency")))


class Guidellm(Peer):
    """guidellm run."""

    name = "guidellm"
    package = "guidellm"

    def argv(self, job: Job) -> list[str]:
        return [
            self.program("guidellm"), "run", "--backend", f"kind=openai_http,target={job.url},model={job.model}",
            "--profile", f"kind=concurrent,streams={job.streams}", "--constraint",
            f"kind=max_requests,count={job.requests}", "--tokenizer", f"kind=hf_auto,model={tokenizer(job.folder)}",
            "--data", f"kind=synthetic_text,prompt_tokens={PROMPT_TOKENS},output_tokens={job.tokens}", "--output",
            f"kind=json,path={job.folder / 'out.json'}", "--disable-progress",
        ]  # fmt: skip

    def read(self, job: Job, ran: Ran) -> Told:
        path = job.folder / "out.json"
        if not path.exists():
            return Told(0, job.requests)
        metrics = read_json(path)["benchmarks"][0]["metrics"]
        ttft = metrics["time_to_first_token_ms"]["successful"] or {}
        tpot = metrics["inter_token_latency_ms"]["successful"] or {}
        told = {}
        if ttft.get("count"):
            told = {
                "ttft_ms_p50": ttft["percentiles"]["p50"],
                "ttft_ms_p99": ttft["percentiles"]["p99"],
                "tpot_ms_p50": (tpot.get("percentiles") or {}).get("p50", float("nan")),
            }
        totals = metrics["request_totals"]
        return Told(totals["successful"], totals["errored"] + totals["incomplete"], summary=told)


class VllmBench(Peer):
    """vllm bench serve."""

    name = "vllm bench serve"
    package = "vllm"

    def argv(self, job: Job) -> list[str]:
        return [
            self.program("vllm"), "bench", "serve", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions",
            "--base-url", job.url, "--model", job.model, "--tokenizer", str(tokenizer(job.folder)), "--dataset-name",
            "random", "--random-input-len", str(PROMPT_TOKENS), "--random-output-len", str(job.tokens),
            "--num-prompts", str(job.requests), "--max-concurrency", str(job.streams), "--save-result",
            "--result-filename", str(job.folder / "out.json"), "--disable-tqdm",
        ]  # fmt: skip

    def read(self, job: Job, ran: Ran) -> Told:
        path = job.folder / "out.json"
        if not path.exists():
            return Told(0, job.requests)
        found = read_json(path)
        ok = int(found["completed"])
        told = {
            "ttft_ms_p50": found["median_ttft_ms"],
            "ttft_ms_p99": found["p99_ttft_ms"],
            "tpot_ms_p50": found["median_tpot_ms"],
        }
        return Told(ok, job.requests - ok, summary=told if ok else {})


PEERS: tuple[type[Peer], ...] = (VllmBench, Evalscope, Aiperf, Guidellm)


def _summary(ttft: dict[str, Any] | None, tpot: dict[str, Any] | None) -> dict[str, float]:
    if not ttft or ttft.get("p50") is None:
        return {}
    return {
        "ttft_ms_p50": ttft["p50"],
        "ttft_ms_p99": ttft["p99"],
        "tpot_ms_p50": (tpot or {}).get("p50", float("nan")),
    }


def tokenizer(folder: Path) -> Path:
    """A tokenizer of whole words, written here: some peers want one even where the server counts the tokens."""
    path = folder / "tokenizer"
    path.mkdir(exist_ok=True)
    words = ["<unk>", "on", *(f"w{n}" for n in range(2000))]
    special = {"id": 0, "content": "<unk>", "single_word": False, "lstrip": False, "rstrip": False}
    made = {
        "version": "1.0",
        "added_tokens": [{**special, "normalized": False, "special": True}],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {word: n for n, word in enumerate(words)}, "unk_token": "<unk>"},
    }
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "eos_token": "<unk>"}
    template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    (path / "tokenizer.json").write_text(json.dumps(made))
    (path / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": template}))
    return path
