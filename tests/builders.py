"""Whole run folders from given figures, for tests: records as a load process would have written them.

    run = RunBuilder()
    run.perf("single.perf-short", {"base": Speed(17.7, 10.4), "cand": Speed(28.0, 17.5)})
    run.answers("single.gsm8k", golds, {"base": [...], "cand": [...]})
    folder = run.write(tmp_path / "run")

Everything is kept as plain objects until `write`, so that a test can doctor any of it: `run.records`, `run.scenarios`,
`run.states` (engine.json), `run.manifest`.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from records import ErrorKind, JsonObject, Record, RunFolder, write_json
from workloads import Prompt, write_prompts

NS = 1_000_000_000
START_NS = 50_000 * NS
DEFAULT_CONTEXT = 8192


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast an engine is in a cell: every request has these latencies, give or take `noise` (a share)."""

    ttft_ms: float
    tpot_ms: float
    users: int = 1
    requests: int = 16
    warmup: int = 2
    tokens: int = 64
    prompt_tokens: int = 32
    noise: float = 0.01
    run_noise: float = 0.0
    timings: bool = True
    """Whether the engine sends llama.cpp's timings."""

    @classmethod
    def at_rate(cls, tok_s: float, users: int, ttft_ms: float, *, tokens: int = 64, **more: Any) -> Speed:
        """The speed at which `users` in flight give `tok_s` in sum."""
        e2e_ms = users * tokens / tok_s * 1000
        return cls(ttft_ms, (e2e_ms - ttft_ms) / (tokens - 1), users=users, tokens=tokens, **more)


@dataclass(frozen=True, slots=True)
class Answer:
    """One completion of a quality cell."""

    text: str
    finish_reason: str = "stop"
    tokens: int | None = None
    error: str | None = None


def boxed(value: object, reasoning: str = "We work it out step by step.") -> Answer:
    """A completion that ends in a boxed answer."""
    return Answer(f"{reasoning}\n\nThe final answer is \\boxed{{{value}}}.")


@dataclass(slots=True)
class RunBuilder:
    """Collects cells, then writes the folder."""

    engines: tuple[str, ...] = ("base", "cand")
    rounds: int = 1
    seed: int = 1
    profile: JsonObject = field(default_factory=dict)
    records: dict[tuple[str, int, str], list[Record]] = field(default_factory=dict)
    scenarios: dict[tuple[str, int, str], JsonObject] = field(default_factory=dict)
    states: dict[tuple[str, int], JsonObject] = field(default_factory=dict)
    manifest: JsonObject = field(default_factory=dict)
    workloads: dict[str, list[Prompt]] = field(default_factory=dict)
    gpu: dict[tuple[str, int], list[JsonObject]] = field(default_factory=dict)
    crowd: dict[tuple[str, int], float] = field(default_factory=dict)
    """CPU time that others took in a round, and that our threads waited, per second of ours; 0 unless given."""
    _clock_ns: int = START_NS

    def __post_init__(self) -> None:
        self.profile = {
            "name": "built",
            "description": "",
            "baseline": self.engines[0],
            "rounds": self.rounds,
            "seed": self.seed,
            "engines": [{"name": name, "kind": "llama_cpp", "slots": 4} for name in self.engines],
            "cells": [],
            "sampling": {"temperature": 0.0, "top_p": 1.0},
            "max_seq_len": DEFAULT_CONTEXT,
            "thinking": False,
            "cache": False,
            "error_limit": 0.0,
            "objectives": None,
            "parity_margin": {},
            "gate": {"threshold": 0.03},
        } | self.profile
        for engine in self.engines:
            for number in range(1, self.rounds + 1):
                self.states[engine, number] = engine_state(engine, number)
        self.manifest = {
            "schema": 1,
            "run_id": "built",
            "created_utc": "2026-01-01T00:00:00Z",
            "profile_path": "profiles/built.toml",
            "profile_sha256": "0" * 64,
            "host": {"os": "Linux", "kernel": "6.1", "cpu": "test", "cores": 2, "gpu": None},
            "versions": {"enginebench": "0.1.0", "python": "3.11"},
            "git": None,
            "seeds": {"workloads": self.seed, "load": self.seed},
            "order": [
                [engine, number]
                for number in range(1, self.rounds + 1)
                for engine in (self.engines if number % 2 else self.engines[::-1])
            ],
        }

    def perf(self, cell: str, speeds: Mapping[str, Speed], *, fixed_length: bool = True) -> None:
        """Add a performance cell, in every round."""
        scenario, _, workload = cell.partition(".")
        speed = next(iter(speeds.values()))
        self._section(
            scenario, workload, requests=speed.requests, warmup=speed.warmup, max_tokens=speed.tokens,
            fixed_length=fixed_length,
        )  # fmt: skip
        prompts = self.workloads.setdefault(workload, _perf_prompts(workload))
        for number in range(1, self.rounds + 1):
            for engine, speed in speeds.items():
                rng = random.Random(f"{self.seed}/{engine}/{number}/{cell}")
                factor = 1 + rng.gauss(0, speed.run_noise) if speed.run_noise else 1.0
                jobs = [
                    _Job(
                        prompt,
                        phase,
                        ttft_ms=speed.ttft_ms * factor * (1 + rng.uniform(-1, 1) * speed.noise),
                        tpot_ms=speed.tpot_ms * factor * (1 + rng.uniform(-1, 1) * speed.noise),
                        text=_words(speed.tokens, random.Random(prompt.prompt_id)),
                        tokens=speed.tokens,
                        prompt_tokens=speed.prompt_tokens,
                        finish_reason="length" if fixed_length else "stop",
                    )
                    for phase, pool, count in (
                        ("warmup", "warmup", speed.warmup),
                        ("measure", "measure", speed.requests),
                    )
                    for prompt in _cycled([p for p in prompts if p.pool == pool], count)
                ]
                self._play(engine, number, cell, speed.users, jobs, timings=speed.timings, fixed_length=fixed_length)

    def answers(
        self,
        cell: str,
        golds: Sequence[str],
        answers: Mapping[str, Sequence[Answer]],
        *,
        task: str = "gsm8k",
        users: int = 1,
        max_tokens: int = 2048,
        tpot_ms: float = 10.0,
        prompt_tokens: int = 90,
        rounds: int | None = None,
    ) -> None:
        """Add a quality cell, in the first `rounds` (or all): the i-th answer is to the problem with the i-th gold."""
        scenario, _, workload = cell.partition(".")
        self._section(
            scenario, workload, requests=None, warmup=0, max_tokens=max_tokens, fixed_length=False, rounds=rounds
        )
        prompts = [
            Prompt(f"{workload}-{i:04d}", ({"role": "user", "content": f"Problem {i}: what is {gold}?"},), gold, task)
            for i, gold in enumerate(golds, start=1)
        ]
        self.workloads[workload] = prompts
        for number in range(1, (rounds or self.rounds) + 1):
            for engine, given in answers.items():
                jobs = [
                    _Job(
                        prompt,
                        "measure",
                        ttft_ms=20.0,
                        tpot_ms=tpot_ms,
                        text=answer.text,
                        tokens=answer.tokens or max(2, len(answer.text) // 4),
                        prompt_tokens=prompt_tokens,
                        finish_reason=answer.finish_reason,
                        error=answer.error,
                    )
                    for prompt, answer in zip(prompts, given, strict=True)
                ]
                self._play(engine, number, cell, users, jobs, timings=True, fixed_length=False, max_tokens=max_tokens)

    def every_record(self, engine: str | None = None, cell: str | None = None) -> list[Record]:
        """The records of an engine, a cell, or all, for a test to doctor."""
        return [
            record
            for (of_engine, _, of_cell), records in self.records.items()
            if engine in (None, of_engine) and cell in (None, of_cell)
            for record in records
        ]

    def write(self, path: Path) -> RunFolder:
        """Write the folder; it must not exist, or be empty."""
        folder = RunFolder(path)
        folder.workloads.mkdir(parents=True)
        told = {}
        for name, prompts in self.workloads.items():
            write_prompts(folder.workload(name), prompts)
            digest = hashlib.sha256(folder.workload(name).read_bytes()).hexdigest()
            n = sum(prompt.pool == "measure" for prompt in prompts)
            told[name] = {"sha256": digest, "n": n, "subset": "all", "revision": None}
        self.manifest |= {"run_id": path.name, "profile": self.profile}
        write_json(folder.manifest, self.manifest | {"workloads": told | self.manifest.get("workloads", {})})
        for (engine, number), state in self.states.items():
            life = folder.round(engine, number)
            life.path.mkdir(parents=True)
            if state:
                write_json(life.engine_json, state)
            host = self._host_rows(engine, number)
            life.host.write_text("".join(json.dumps(row) + "\n" for row in host))
            if rows := self.gpu.get((engine, number)):
                life.gpu.write_text("".join(json.dumps(row) + "\n" for row in rows))
        for (engine, number, cell), records in self.records.items():
            place = folder.round(engine, number).cell(cell)
            place.path.mkdir(parents=True, exist_ok=True)
            with place.requests.open("w", encoding="ascii") as out:
                out.writelines(record.to_json_line() for record in records)
            scenario = self.scenarios[engine, number, cell]
            write_json(place.scenario, {"counts": counts_of(records)} | scenario)
        return folder

    def _host_rows(self, engine: str, number: int) -> list[JsonObject]:
        """Two cores, half of one busy with us; a sample a second from before the first request to after the last."""
        records = [r for (e, n, _), rows in self.records.items() if (e, n) == (engine, number) for r in rows]
        sent = [record.sent_ns for record in records if record.sent_ns is not None]
        if not sent:
            return []
        start, end = min(sent) - NS, max(record.end_ns for record in records) + 2 * NS
        crowd = self.crowd.get((engine, number), 0.0)
        return [
            {
                "t_ns": start + second * NS,
                "cores": 2,
                "busy_s": second * 0.5 * (1 + crowd),
                "idle_s": second * (2 - 0.5 * (1 + crowd)),
                "steal_s": 0.0,
                "ours_s": second * 0.5,
                "waited_s": second * 0.5 * crowd,
                "memory_stalled_s": 0.0,
                "load1": 1.0,
                "mhz": 2400.0,
                "governor": "performance",
                "throttled": 0,
            }
            for second in range((end - start) // NS + 1)
        ]

    def _section(self, scenario: str, workload: str, **more: Any) -> None:
        self.profile["cells"].append({"scenario": scenario, "workload": workload, "samples": 1} | more)

    def _play(
        self,
        engine: str,
        number: int,
        cell: str,
        users: int,
        jobs: list[_Job],
        *,
        timings: bool,
        fixed_length: bool,
        max_tokens: int | None = None,
    ) -> None:
        """A closed loop: each user sends its next request half a millisecond after its last has ended."""
        scenario, _, workload = cell.partition(".")
        self._clock_ns += 5 * NS
        began = self._clock_ns
        records: list[Record] = []
        seqs = dict.fromkeys(range(users), 0)
        measure_start = began
        for phase in ("warmup", "measure"):
            free = [(self._clock_ns, user) for user in range(users)]
            if phase == "measure":
                measure_start = self._clock_ns
            for job in (job for job in jobs if job.phase == phase):
                at, user = heapq.heappop(free)
                record = job.record(engine, cell, number, user, seqs[user], workload, at, timings, max_tokens)
                seqs[user] += 1
                records.append(record)
                heapq.heappush(free, (record.end_ns + 500_000, user))
                self._clock_ns = max(self._clock_ns, record.end_ns + 1_000_000)
        records.sort(key=lambda record: record.end_ns)
        measured = [record for record in records if record.measured]
        _mark_drain(measured, users)
        self.records[engine, number, cell] = records
        self.scenarios[engine, number, cell] = {
            "schema": 1,
            "engine": engine,
            "cell": cell,
            "scenario": scenario,
            "workload": workload,
            "round": number,
            "asked": {
                "users": users,
                "rate": None,
                "requests": len(measured),
                "shape": "closed",
                "duration_s": None,
                "warmup": len(records) - len(measured),
                "max_tokens": max_tokens or (jobs[0].tokens if jobs else 0),
                "fixed_length": fixed_length,
                "samples": 1,
                "seed": self.seed,
                "model": "model",
                "request_extras": {"temperature": 0.0, "top_p": 1.0, "cache_prompt": False},
            },
            "measure_start_ns": measure_start,
            "measure_end_ns": self._clock_ns,
            "client": {
                "loop_lag_ms_p50": 0.05,
                "loop_lag_ms_p99": 0.6,
                "loop_lag_ms_max": 3.0,
                "cpu_share": 0.12,
                "late_sends": 0,
                "send_delay_ms_p99": 0.4,
                "rss_mib": 70.0,
                "in_flight": [],
                "bottleneck": False,
                "bottleneck_reason": None,
            },
            "workers": [],
            "complete": True,
            "incomplete_reason": None,
        }


@dataclass(slots=True)
class _Job:
    prompt: Prompt
    phase: str
    ttft_ms: float
    tpot_ms: float
    text: str
    tokens: int
    prompt_tokens: int
    finish_reason: str
    error: str | None = None

    def record(
        self,
        engine: str,
        cell: str,
        number: int,
        user: int,
        seq: int,
        workload: str,
        sent_ns: int,
        timings: bool,
        max_tokens: int | None,
    ) -> Record:
        """The record of this job, sent at `sent_ns`: one chunk a token."""
        first = sent_ns + round(self.ttft_ms * 1e6)
        step = self.tpot_ms * 1e6
        stamps = [first + round(i * step) for i in range(self.tokens)]
        record = Record(
            id=f"{engine}-{number}-{cell}-{user}-{seq}",
            engine=engine,
            cell=cell,
            round=number,
            worker="w0",
            user=user,
            seq=seq,
            attempt=1,
            workload=workload,
            prompt_id=self.prompt.prompt_id,
            prompt_sha256=self.prompt.sha256,
            sample=0,
            phase=self.phase,
            connect_ns=None,
            scheduled_ns=None,
            sent_ns=sent_ns,
            end_ns=stamps[-1] + 200_000,
            first_token_ns=first,
            first_answer_ns=first,
            last_token_ns=stamps[-1],
            chunk_ns=stamps,
            chunk_chars=_split(len(self.text), self.tokens),
            text=self.text,
            prompt_tokens=self.prompt_tokens,
            cached_tokens=0,
            completion_tokens=self.tokens,
            token_source="usage",
            max_tokens=max_tokens or self.tokens,
            finish_reason=self.finish_reason,
            done=True,
            http_status=200,
            server_timings={
                "cache_n": 0,
                "prompt_n": self.prompt_tokens,
                "prompt_ms": self.ttft_ms * 0.9,
                "predicted_n": self.tokens,
                "predicted_ms": self.tpot_ms * (self.tokens - 1),
            }
            if timings
            else None,
            system_fingerprint="b9371-f12cc6d0",
        )
        if self.error:
            fail(record, self.error)
        return record


def counts_of(records: Sequence[Record]) -> JsonObject:
    """The counts of scenario.json, as the load process keeps them."""
    measured = [record for record in records if record.measured]
    phases = {phase: sum(record.phase == phase for record in records) for phase in ("warmup", "measure", "drain")}
    ok = sum(record.ok for record in measured)
    return phases | {"ok": ok, "error": len(measured) - ok, "errors_by_kind": {}}


def fail(record: Record, kind: str = ErrorKind.ABORTED) -> None:
    """Turn a record into an error of a kind, as the load process would write it."""
    record.status = "error"
    record.error = {"kind": str(kind), "message": "made by a test"}
    record.finish_reason = None
    record.completion_tokens = None
    record.done = False


def engine_state(engine: str, number: int) -> JsonObject:
    """An engine.json with nothing wrong."""
    return {
        "schema": 1,
        "engine": engine,
        "kind": "llama_cpp",
        "round": number,
        "argv": ["llama-server", "-m", "model.gguf", "-c", str(4 * DEFAULT_CONTEXT), "-np", "4"],
        "env": {},
        "base_url": "http://127.0.0.1:8080",
        "model": "model",
        "started_utc": "2026-01-01T00:00:00Z",
        "ready_s": 1.0,
        "stopped_utc": "2026-01-01T00:10:00Z",
        "exit_code": 0,
        "stop_reason": "asked",
        "readback": {
            "build": "b9371-f12cc6d0",
            "model": "model",
            "context_per_slot": DEFAULT_CONTEXT,
            "slots": 4,
            "chat_template_sha256": "c" * 64,
            "extra": {},
        },
        "probe": {
            "prompt_tokens": {"a" * 64: 32},
            "thinking": False,
            "fixed_length": True,
            "sampling_accepted": True,
            "cache_hit": False,
            "notes": [],
        },
        "asked": {
            "max_seq_len": DEFAULT_CONTEXT,
            "slots": 4,
            "context_per_slot": DEFAULT_CONTEXT,
            "threads": 1,
            "thinking": False,
            "cache": False,
            "sampling": {"temperature": 0.0, "top_p": 1.0},
        },
        "weights": {"path": "model.gguf", "sha256": "d" * 64, "bytes": 1000, "source_sha256": "e" * 64},
        "provenance": None,
        "machine": {
            "vram_before_mib": None,
            "vram_ready_mib": None,
            "vram_after_mib": None,
            "port_free_after": True,
            "processes_left": 0,
            "cotenants": None,
        },
        "log_findings": {"swap_events": None},
    }


def _mark_drain(measured: list[Record], users: int) -> None:
    """What ended after the last instant with every user in flight is drain."""
    last_send = max((record.sent_ns or 0) for record in measured) if measured else 0
    ends = sorted(record.end_ns for record in measured if record.end_ns > last_send)
    if len(measured) >= users and ends:
        for record in measured:
            if record.end_ns > ends[0]:
                record.phase = "drain"


def _perf_prompts(workload: str) -> list[Prompt]:
    def pool(name: str, count: int) -> list[Prompt]:
        return [
            Prompt(
                f"{workload}-{name}-{i:04d}", ({"role": "user", "content": f"{i} {name} tell me"},), None, "perf", name
            )
            for i in range(1, count + 1)
        ]

    return pool("measure", 64) + pool("warmup", 8)


def _cycled(prompts: list[Prompt], count: int) -> list[Prompt]:
    return [prompts[i % len(prompts)] for i in range(count)]


_VOCABULARY = (
    "the",
    "a",
    "of",
    "and",
    "it",
    "was",
    "there",
    "on",
    "water",
    "light",
    "stone",
    "engine",
    "moves",
    "river",
)


def _words(count: int, rng: random.Random) -> str:
    return " ".join(rng.choice(_VOCABULARY) for _ in range(count))


def _split(total: int, parts: int) -> list[int]:
    whole, rest = divmod(total, parts)
    return [whole + (i < rest) for i in range(parts)]
