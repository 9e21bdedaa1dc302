"""Prints a profile for one part of the comparison, made of the engines in profiles/qwen3-8b-engines-h200.toml.

    python -m benchmarks.gpu.make_profile sweep vllm vllm.rs --slots 32 --users 1,2,4,8,16,32 --depths 0,4096,16384
    python -m benchmarks.gpu.make_profile llama-4 llama.cpp --slots 4 --users 4

Cells have the prompts and answers of the comparison; those of a depth are asked one at a time. After each cell, an
independent client measures the same engine process (`bare_client.py --hook`).
"""

from __future__ import annotations

import argparse
from typing import Any

from driver.ab import to_toml
from driver.profile.read import load_profile

PROFILE = "profiles/qwen3-8b-engines-h200.toml"
ANSWER_TOKENS = 256
QUESTION_TOKENS = 32
HOOK = ["python3", "benchmarks/gpu/bare_client.py", "--hook"]


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("engines", nargs="+", metavar="ENGINE")
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--max-seq-len", type=int, default=8192)
    parser.add_argument("--users", type=numbers, default=[], metavar="N,N")
    parser.add_argument("--seconds", type=float, help="measure so long, in place of two requests for each user")
    parser.add_argument("--depths", type=numbers, default=[], metavar="TOKENS,TOKENS")
    parser.add_argument("--arg", action="append", default=[], help="one more word of the engines' command lines")
    parser.add_argument("--port", type=int, help="of the first engine; the next ones follow")
    parser.add_argument("--shared-card", action="store_true", help="another process may be on the GPU")
    print(to_toml(profile(parser.parse_args())), end="")


def numbers(text: str) -> list[int]:
    """`1,2,4`."""
    return [int(word) for word in text.split(",")]


def profile(asked: argparse.Namespace) -> dict[str, Any]:
    """The values of the profile."""
    source = load_profile(PROFILE)
    engines = []
    for number, name in enumerate(asked.engines):
        section = next(engine for engine in source.engines if engine.name == name)
        values = section.model_dump(exclude_defaults=True, mode="json")
        values |= {"slots": asked.slots, "args": [*values.get("args", []), *asked.arg]}
        values |= {"port": asked.port + number} if asked.port else {}
        values |= {"options": {"allow_cotenants": True}} if asked.shared_card else {}
        engines.append(values)
    return {
        "name": asked.name,
        "baseline": asked.engines[0],
        "rounds": 1,
        "max_seq_len": asked.max_seq_len,
        "tokenizer": source.tokenizer,
        "sampling": {"temperature": 0.0},
        "engines": engines,
        "cells": [_users_cell(users, asked.seconds) for users in asked.users]
        + [_depth_cell(depth) for depth in asked.depths],
        "workloads": {_depth(n): {"synthetic": {"input_tokens": n + QUESTION_TOKENS}} for n in asked.depths},
        "hooks": {"after_cell": HOOK},
    }


def _users_cell(users: int, seconds: float | None) -> dict[str, Any]:
    return {
        "name": f"concurrent_{users}.perf-medium",
        "scenario": "closed_loop",
        "workload": "perf-medium",
        "users": users,
        **({"duration_s": seconds} if seconds else {"requests": max(3, 2 * users)}),
        "warmup": users,
        "max_tokens": ANSWER_TOKENS,
        "fixed_length": True,
    }


def _depth_cell(depth: int) -> dict[str, Any]:
    return {
        "name": f"single.{_depth(depth)}",
        "scenario": "single",
        "workload": _depth(depth),
        "requests": 3,
        "warmup": 1,
        "max_tokens": 128,
        "fixed_length": True,
    }


def _depth(tokens: int) -> str:
    return f"depth-{tokens}"


if __name__ == "__main__":
    main()
