"""Run folders as a night leaves them: a manifest, engine.json, and a comparison with figures by round."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from records import RunFolder, write_json

METRICS = {"output_tok_s": ("tok/s", 100.0), "ttft_ms_p50": ("ms", 20.0), "tpot_ms_p50": ("ms", 10.0)}

PROFILE = """
name = "night"
baseline = "llama"
rounds = {rounds}
max_seq_len = 1024

[gate]
baseline = "{baseline}"

[[engines]]
name = "llama"
kind = "remote"
url = "http://127.0.0.1:9"

[[cells]]
scenario = "single"
workload = "perf-short"
requests = 4
max_tokens = 16
fixed_length = true
"""

HOST: dict[str, Any] = {
    "kernel": "6.1.0-1", "cpu": "a CPU", "cores": 16, "cpu_mhz_max": 4200.0,
    "gpu": [{"name": "RTX 5090", "driver": "570.10", "vbios": "98.02", "max_sm_mhz": 2407, "temperature_c": 40}],
}  # fmt: skip


def profile_dict(engines: tuple[str, ...] = ("llama",), **changes: Any) -> dict[str, Any]:
    cell = {"scenario": "single", "workload": "perf-short", "requests": 4, "max_tokens": 16, "fixed_length": True}
    return {
        "name": "night", "baseline": engines[0], "rounds": 5, "seed": 1, "max_seq_len": 1024, "thinking": False,
        "cache": False, "sampling": {"temperature": 0.0},
        "engines": [{"name": e, "kind": "llama_cpp"} for e in engines],
        "cells": [cell],
    } | changes  # fmt: skip


@dataclass
class Night:
    """One night: `slower` is engine -> share of slow-down of everything (0.05 is 5% slower)."""

    run_id: str
    created: str
    slower: dict[str, float] = field(default_factory=dict)
    engines: tuple[str, ...] = ("llama",)
    build: dict[str, str] = field(default_factory=dict)
    host: dict[str, Any] = field(default_factory=lambda: dict(HOST))
    noise: float = 0.02
    night_noise: float = 0.0
    rounds: int = 5
    void: bool = False
    correct: dict[str, list[bool]] = field(default_factory=dict)
    cells: tuple[str, ...] = ("single.perf-short",)
    profile: dict[str, Any] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    """Metrics that the night lacks."""
    zero: tuple[str, ...] = ()
    """Metrics that are 0 in every round."""

    def write(self, out: Path, rng: random.Random) -> RunFolder:
        folder = RunFolder(out / self.run_id)
        folder.path.mkdir(parents=True)
        profile = profile_dict(self.engines, rounds=self.rounds) | self.profile
        write_json(
            folder.manifest,
            {
                "schema": 1, "run_id": self.run_id, "created_utc": self.created, "profile": profile,
                "profile_sha256": "p" * 64,
                "host": self.host, "workloads": {"perf-short": {"sha256": "w" * 64, "n": 4}}, "notes": [],
            },
        )  # fmt: skip
        for engine in self.engines:
            for number in range(1, self.rounds + 1):
                round_folder = folder.round(engine, number)
                round_folder.path.mkdir(parents=True)
                told = {
                    "engine": engine, "kind": "llama_cpp", "model": "m", "weights": {"source_sha256": "a" * 64},
                    "readback": {"build": self.build.get(engine, "b9371"), "slots": 4, "context_per_slot": 1024},
                    "asked": {"slots": 4, "thinking": False, "cache": False},
                }  # fmt: skip
                write_json(round_folder.engine_json, told)
                for cell in self.cells:
                    round_folder.cell(cell).path.mkdir()
                    write_json(round_folder.cell(cell).scenario, {"complete": True})
        write_json(folder.comparison("1", "json"), self.comparison(rng))
        return folder

    def comparison(self, rng: random.Random) -> dict[str, Any]:
        rows = []
        for cell in self.cells:
            scenario, _, workload = cell.partition(".")
            shared = {engine: rng.gauss(0, self.night_noise) for engine in self.engines}
            for metric, (unit, level) in METRICS.items():
                if metric in self.drop:
                    continue
                told = {}
                for engine in self.engines:
                    speed = math.log1p(-self.slower.get(engine, 0.0)) + shared[engine]
                    sign = 1 if unit == "tok/s" else -1
                    rounds = [level * math.exp(sign * (speed + rng.gauss(0, self.noise))) for _ in range(self.rounds)]
                    rounds = [0.0] * self.rounds if metric in self.zero else rounds
                    by_round = {str(number): value for number, value in enumerate(rounds, start=1)}
                    told[engine] = {"value": sum(rounds) / len(rounds), "ci": None, "n": 20, "rounds": by_round}
                names = {"cell": cell, "scenario": scenario, "workload": workload}
                rows.append(names | {"metric": metric, "unit": unit, "engines": told})
        audit = [{"check": "templates", "engine": None, "cell": None, "status": "pass", "evidence": "same"}]
        if self.void:
            audit.append(
                {
                    "check": "cache hits",
                    "engine": "llama",
                    "cell": "single.perf-short",
                    "status": "fail",
                    "evidence": "9",
                }
            )
        return {
            "schema_version": 1, "run_id": self.run_id, "created": self.created, "baseline": self.engines[0],
            "engines": {engine: {} for engine in self.engines}, "performance": rows, "audit": audit,
            "requests": [], "verdict": {"void": self.void},
            **self.answers(),
        }  # fmt: skip

    def answers(self) -> dict[str, Any]:
        if not self.correct:
            return {"quality": [], "problems": []}
        told = {
            engine: {"correct": sum(marks), "n": len(marks), "accuracy": sum(marks) / len(marks), "ci": None}
            for engine, marks in self.correct.items()
        }
        n = max(len(marks) for marks in self.correct.values())
        problems = [
            {
                "cell": "single.arithmetic", "workload": "arithmetic", "prompt_id": str(i), "gold": "1",
                "engines": {engine: {"answer": "1", "correct": marks[i]} for engine, marks in self.correct.items()},
            }
            for i in range(n)
        ]  # fmt: skip
        return {
            "quality": [{"cell": "single.arithmetic", "workload": "arithmetic", "n": n, "engines": told, "paired": {}}],
            "problems": problems,
        }
