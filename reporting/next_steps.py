"""What to do about an audit check that did not pass: one plain sentence for each check."""

from __future__ import annotations

from records import JsonObject

NEXT_STEPS = {
    # The engine
    "context per slot": "Start the engine with more context: the whole context is max_seq_len times the slots.",
    "slots": "Give the engine and the profile the same number of slots.",
    "same weights": "Serve the same weights from both engines.",
    "same model read back": "Do not change the engine's build, model or chat template until all rounds are complete.",
    "same model as the baseline": "Serve the same model from both engines, with the same chat template.",
    "same sampling asked": "Remove settings that change the sampling from request_extras and the engine's args.",
    "thinking as asked": "Set thinking in the profile to what the model does, or switch it off in request_extras.",
    "same prompt tokens in the probe": "Give both engines the same chat template.",
    "engine alive": "Read the end of server.log in the engine's folder, fix what ended the engine, and run again.",
    "engine read back": "Start the engine from a profile (`enginebench run` or `ab`): its settings are recorded then.",
    # The machine
    "machine left alone": "Stop the other programs on this machine, or pin engine and client to separate cores.",
    "alone on the GPU": "Stop the other processes on the GPU (nvidia-smi lists them), or choose another GPU.",
    "GPU not throttled": "Cool the GPU, or lower its clock limit so that it holds the clock for a whole run.",
    "memory freed": "Stop the processes that the engine left behind (they also hold its port), then run again.",
    "no swapping": "Lower the slots or max_seq_len until the KV cache fits into the GPU's memory.",
    "order and drift": "Let the machine settle (clocks, temperature, other programs), and measure more rounds.",
    # The requests
    "same prompts asked": "Run both engines from one profile, with the same workload files and the same seed.",
    "warm-up apart": "Give the workload more prompts, so that warm-up and measurement share none.",
    "warm-up answered": "Find out why the engine refused the warm-up (its server.log), then run again.",
    "same load asked": "Run both engines from one profile, so that both get the same load.",
    "same sampling": "Send both engines the same sampling: compare their request_extras.",
    "same prompt tokens": "Give both engines the same chat template.",
    "prompts as long as planned": "Take the lengths as approximate; the engine's own counts are in the records.",
    # The responses
    "thinking off": "Switch thinking off in the chat template (request_extras), or set thinking = true.",
    "not cut at the context": "Raise max_seq_len, or lower max_tokens, so that prompt and answer fit into one slot.",
    "cache cold": "Switch the engine's prefix cache off; with cache = true, give each cell a workload of its own.",
    "cache hits as planned": "Look at slots, cache size and block size of the engine that reuses less.",
    "fixed length obeyed": "Tell the engine to ignore its end token (ignore_eos), or set fixed_length = false.",
    "errors under the limit": "Read the messages under What failed, fix their cause, or raise error_limit.",
    "never restarted": "Read server.log for why the engine went away, fix that, and run again.",
    "usage plausible": "Count the tokens with a tokenizer in the profile, and report the engine's wrong usage.",
    "stamps in order": "Measure this cell again; if the check still fails, report it with the run's folder.",
    "answers are streamed": "Switch streaming on in the engine and in any proxy, or compare E2E and throughput only.",
    "tokens per event": "Compare E2E and throughput, or have both engines send one token per event.",
    "answers as long as the baseline's": "Compare TPOT, or ask for a fixed length, so that both do the same work.",
    "same tokens for the same text": "Count the tokens of both engines with one tokenizer (tokenizer in the profile).",
    "greedy answers agree": "Check that both engines serve the same model with the same chat template.",
    "greedy answers begin alike": "Find out why the engine samples at temperature 0; until then compare speed only.",
    # The load
    "round complete": "Finish the run with --run-id and its name, or run again.",
    "undisturbed": "Nothing if there are other rounds to compare; else measure one more round.",
    "records as counted": "Measure this cell again: some of its records are lost.",
    "concurrency achieved": "Ask for more requests per cell or for longer answers, and keep the client from waiting.",
    "sent on time": "Give the cell more users, the client its own cores, or ask for a lower rate (`speed` of a trace).",
    "client healthy": "Give the client its own cores: set `cores` in the cell, and other cores in each engine.",
    "client and server agree": "Look for what delays the stream: a proxy, a busy client, a slow network.",
    "no drift": "Look for what changes during a cell (temperature, other programs), or warm up for longer.",
    "no slower than with more users": (
        "Look for what slows the smaller load: power saving, polling, llama.cpp's idle slots without --kv-unified."
    ),
    # Two runs
    "runs: sampling": "Measure both runs with the same [sampling].",
    "runs: context": "Measure both runs with the same max_seq_len.",
    "runs: thinking": "Measure both runs with the same thinking.",
    "runs: cache": "Measure both runs with the same cache.",
    "runs: model": "Measure both runs with the same weights.",
    "runs: set-up": "Measure both runs with the same slots, context and chat template of the engine.",
    "runs: GPU": "Measure both runs on the same GPU, with the same driver and limits.",
    "runs: host": "Measure both runs on the same machine, in the same state.",
    "runs: prompts": "Measure both runs with the same workload files.",
    "runs: load": "Measure both runs with the same cell (users, requests, lengths).",
}  # fmt: skip
"""Audit check -> what to do if it does not pass."""

_OF_ANY = "Remove the cause, then run again."


def next_step(check: str) -> str:
    """What to do about a check that did not pass; general advice for an unknown check (of a newer version)."""
    return NEXT_STEPS.get(check, _OF_ANY)


def step_of(row: JsonObject) -> str:
    """What to do about a row of the audit; empty where it passed or nobody can do anything."""
    return next_step(str(row["check"])) if row["status"] in ("fail", "warn") else ""
