"""Loads each workload's prompts, describes them for the manifest, and writes them into the run's folder once."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import workloads as tasks
from driver.errors import BenchError, ExitCode
from driver.profile.read import Cell, Profile, WorkloadSection
from driver.profile.sections import TraceSection
from engines.files import sha256
from records import RunFolder
from records.endpoint import CHAT
from records.files import read_json_lines
from scoring.answers.graders import check_gradable
from workloads.conversations import FIXED
from workloads.problem_sets import fetch_note
from workloads.prompts import conversations_fit
from workloads.synthetic import synthetic_prompts
from workloads.trace_prompts import recorded_prompts, trace_prompts
from workloads.traces import read_trace

MOST_ASKED = 1024
"""Largest default number of generated prompts; a cell with more requests gets more."""
SYNTHETIC_TOKENS, FEWEST_SYNTHETIC = 1_000_000, 64
"""Default number of synthetic prompts: about this many tokens in total, but at least this many prompts."""

CAPACITY_PROMPTS = 2048
"""Generated prompts for a capacity search. Most searches need fewer requests; a longer one asks them again."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The prompts of one workload, and its description for the manifest.

    `described` is {"sha256": of its file, "n": measured prompts (conversations), "warmup": warm-up prompts, "subset":
    as text, "few_shot": worked examples before each problem, "source": its origin, or None}, and "turns", those of all
    measured conversations, where it has such, and "input_tokens", the planned length of synthetic prompts.
    """

    prompts: tuple[tasks.Prompt, ...]
    described: dict[str, Any]

    @property
    def measured(self) -> int:
        n: int = self.described["n"]
        return n

    @property
    def has_conversations(self) -> bool:
        return "turns" in self.described

    @property
    def requests_each(self) -> float:
        """Requests that a prompt makes: 1, or the mean number of turns."""
        return float(self.described.get("turns", self.measured)) / max(self.measured, 1)


def load_workloads(profile: Profile) -> dict[str, Workload]:
    """Every workload of the cells, by its name; nothing is written.

    Raises:
        BenchError: a workload that cannot be loaded (exit code 2).
    """
    loaded: dict[str, Workload] = {}
    for cell in profile.cells:
        if cell.workload_name not in loaded:
            loaded[cell.workload_name] = load_workload(profile, cell.workload)
        asked = loaded[cell.workload_name].prompts
        if profile.endpoint_of(cell) != CHAT and any("tools" in (prompt.request or {}) for prompt in asked):
            raise BenchError(
                f'cell {cell.label}: tools are a chat\'s; set endpoint = "chat" in [workloads.{cell.workload}]',
                ExitCode.USAGE,
            )
        _check_conversations(cell, loaded[cell.workload_name])
    return loaded


def _check_conversations(cell: Cell, workload: Workload) -> None:
    """Look at whether a cell counts what its workload has.

    Raises:
        BenchError: it does not, or a conversation cannot go on (exit code 2).
    """
    carry = str(cell.options.get("carry", FIXED))
    try:
        conversations_fit(workload.prompts, cell.requests or 0, cell.conversations or 0, carry)
    except ValueError as error:
        raise BenchError(f"cell {cell.label}: {error}", ExitCode.USAGE) from None


def write_workloads(folder: RunFolder, workloads: dict[str, Workload]) -> None:
    """Write each workload's file. Call it after the manifest has confirmed that the prompts are unchanged."""
    folder.workloads.mkdir(parents=True, exist_ok=True)
    for name, workload in workloads.items():
        tasks.write_prompts(folder.workload(name), workload.prompts)


def load_workload(profile: Profile, workload: str) -> Workload:
    """Load one workload, reduced to the profile's subset.

    Raises:
        BenchError: the workload cannot be loaded, or is smaller than its subset (exit code 2).
    """
    section = profile.workloads.get(workload) or WorkloadSection()
    source = section.file or workload
    try:
        prompts = _prompts(profile, workload, section, source)
        if section.first or section.sample:
            prompts = tasks.subset(prompts, first=section.first, sample=section.sample, seed=profile.seed)
    except tasks.TaskError as error:
        message = str(error)
        raise BenchError(
            message if message.startswith(workload) else f"workload {workload}: {message}", ExitCode.USAGE
        ) from None
    try:
        check_gradable(prompts)
    except ValueError as error:
        raise BenchError(f"workload {workload}: {error}", ExitCode.USAGE) from None
    described = {
        "sha256": hashlib.sha256(tasks.to_lines(prompts).encode()).hexdigest(),
        "n": sum(prompt.pool == "measure" for prompt in prompts),
        "warmup": sum(prompt.pool == "warmup" for prompt in prompts),
        "subset": tasks.subset_label(first=section.first, sample=section.sample, seed=profile.seed),
        "few_shot": section.few_shot,
        "source": _origin(section.trace.file if section.trace else source),
        **({"input_tokens": section.synthetic.input_tokens} if section.synthetic else {}),
    }
    if turns := sum(len(prompt.turns) for prompt in prompts if prompt.pool == "measure"):
        described["turns"] = turns
    return Workload(tuple(prompts), described)


def _prompts(profile: Profile, workload: str, section: WorkloadSection, source: str) -> list[tasks.Prompt]:
    """All prompts of a workload, loaded from its `source` or generated with its lengths."""
    if section.trace is not None:
        return _of_trace(profile, workload, section, section.trace)
    most = _most_asked(profile, workload)
    if section.synthetic is None:
        return tasks.load_prompts(source, seed=profile.seed, few_shot=section.few_shot, count=most)
    lengths = section.synthetic.lengths()
    count = most or max(FEWEST_SYNTHETIC, min(MOST_ASKED, SYNTHETIC_TOKENS // lengths.tokens))
    warmup = max(cell.warmup for cell in profile.cells if cell.workload == workload)
    try:
        return synthetic_prompts(workload, lengths, seed=profile.seed, count=count, warmup=max(warmup, 1))
    except ValueError as error:
        raise tasks.TaskError(str(error)) from None


def _of_trace(profile: Profile, workload: str, section: WorkloadSection, asked: TraceSection) -> list[tasks.Prompt]:
    path = Path(asked.file)
    trace = read_trace(path, asked.format, section.first)
    if trace.format == "records":
        # The requests.jsonl of a run: <run>/<engine>/r<k>/<cell>/requests.jsonl.
        recorded = RunFolder(path.absolute().parents[3]).workload(workload_of(path))
        if prompts := recorded_prompts(recorded, trace, speed=asked.speed, cap=asked.cap_tokens):
            return prompts
    warmup = max(cell.warmup for cell in profile.cells if cell.workload == workload)
    try:
        return trace_prompts(
            workload, trace, seed=profile.seed, speed=asked.speed, warmup=max(warmup, 1), cap=asked.cap_tokens
        )
    except ValueError as error:
        raise tasks.TaskError(str(error)) from None


def workload_of(requests: Path) -> str:
    """The workload that a requests.jsonl names; "" where it names none."""
    for _, row in read_json_lines(requests):
        return str(row.get("workload", ""))
    return ""


def _most_asked(profile: Profile, workload: str) -> int | None:
    """The most requests that a cell asks of a workload, so that no generated prompt is asked twice."""
    asking = [cell for cell in profile.cells if cell.workload == workload]
    most = max(CAPACITY_PROMPTS if cell.searches_capacity else cell.asked or 0 for cell in asking)
    return most if most > MOST_ASKED else None


def _origin(source: str) -> dict[str, Any] | None:
    """The origin of a workload's problems: revision and hash of a fetched set, hash of a user's file; else None."""
    path = Path(source)
    if path.suffix in (".jsonl", ".json", ".csv") and path.is_file():
        return {"file": path.name, "sha256": sha256(path)}
    fetched = tasks.default_data_dir() / f"{source.partition('-')[0]}.jsonl"
    return fetch_note(fetched) if fetched.is_file() else None
