"""Writes down what will be asked: `workloads/<workload>.jsonl` in the run's folder, with the hash for the manifest."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from driver.errors import BenchError, ExitCode
from driver.profile import Profile
from records import RunFolder
from scoring import tasks
from scoring._datasets import fetch_note


def write_workloads(folder: RunFolder, profile: Profile) -> dict[str, Any]:
    """Write each workload of the profile once, and describe it for the manifest.

    Returns:
        workload name -> {"sha256": of the file, "n": measured prompts, "warmup": warm-up prompts, "subset": in words,
        "source_sha256": of the local file it was taken from, or None}.

    Raises:
        BenchError: a workload that cannot be loaded (exit code 2).
    """
    described: dict[str, Any] = {}
    folder.workloads.mkdir(parents=True, exist_ok=True)
    for cell in profile.cells:
        if cell.workload_name in described:
            continue
        section = profile.workloads.get(cell.workload)
        source = section.file if section and section.file else cell.workload
        try:
            prompts = tasks.load_prompts(source, seed=profile.seed, count=most_asked(profile, cell.workload))
        except tasks.TaskError as error:
            raise BenchError(f"workload {cell.workload}: {error}", ExitCode.USAGE) from None
        subset = "all"
        if section and (section.first or section.sample):
            prompts = tasks.subset(prompts, first=section.first, sample=section.sample, seed=profile.seed)
            subset = tasks.subset_label(first=section.first, sample=section.sample, seed=profile.seed)
        path = folder.workload(cell.workload_name)
        tasks.write_prompts(path, prompts)
        described[cell.workload_name] = {
            "sha256": _sha256(path),
            "n": sum(prompt.pool == "measure" for prompt in prompts),
            "warmup": sum(prompt.pool == "warmup" for prompt in prompts),
            "subset": subset,
            "source": source_of(source),
        }
    return described


def most_asked(profile: Profile, workload: str) -> int | None:
    """The most requests that a cell asks of a workload, so that no generated prompt is asked twice."""
    asked = [cell.requests or 0 for cell in profile.cells if cell.workload == workload]
    return max(asked) if max(asked) > 1024 else None


def source_of(source: str) -> dict[str, Any] | None:
    """Where a workload's problems come from: revision and hash of a fetched set, hash of a user's file; else None."""
    path = Path(source)
    if source.endswith(".jsonl") and path.is_file():
        return {"file": path.name, "sha256": _sha256(path)}
    name = source.partition("-")[0]
    fetched = tasks.default_data_dir() / f"{name}.jsonl"
    return fetch_note(fetched) if fetched.is_file() else None


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
