"""One cell on a living engine: what it still owes, the load, and why that did not come to its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import workloads as tasks
from driver.errors import BenchError
from driver.profile.read import Cell, Profile
from driver.run.engine_deaths import mark_complete, mark_engine_gone, name_cut_requests
from driver.run.engine_setup import request_extras
from driver.run.hooks import Target, around
from driver.run.launcher import Load, LoadResult, run_load
from driver.run.plan import Life
from driver.run.progress import Display
from engines import Engine, RunningEngine
from records import ASKED_AGAIN, CellFolder, RoundFolder, RunFolder, read_records
from workloads import Prompt


@dataclass(frozen=True, slots=True)
class LivingEngine:
    """An engine that is up, and what its cells must know of the run around it."""

    run: RunFolder
    profile: Profile
    life: Life
    engine: Engine
    process: RunningEngine
    display: Display
    max_tokens_fields: Mapping[str, str]
    """By endpoint: what the engine calls the most tokens of an answer."""
    keep_raw: bool = False

    @property
    def folder(self) -> RoundFolder:
        return self.run.round(self.life.engine.name, self.life.round)


def run_cell(living: LivingEngine, cell: Cell) -> bool:
    """Run what a cell still owes.

    Returns:
        Whether all its measured requests were ok.

    Raises:
        BenchError: the engine died, or the load ended before it was complete.
    """
    folder = living.folder.cell(cell.label)
    folder.path.mkdir(parents=True, exist_ok=True)
    # A broken load curve can't be glued, but an answer stands by itself.
    resumed = cell.asks_each_once and folder.requests.exists()
    if not resumed:
        folder.set_aside()
    try:
        if resumed:
            earlier = living.run.round(living.life.engine.name, living.life.round).earlier_states()
            name_cut_requests(folder, earlier)
        prompts, owed = _prompts(living.run.workload(cell.workload_name), folder, cell, resumed=resumed)
        if resumed and not owed:
            mark_complete(folder)
            return not any(record.failed for record in read_records(folder.requests) if record.measured)
    except ValueError as error:
        raise BenchError(f"{error}; that is damaged: start a new run, or move the file away and ask again") from None
    section = living.life.engine
    endpoint = living.profile.endpoint_of(cell)
    load = Load(
        cell=cell,
        folder=folder,
        engine=section.name,
        round=living.life.round,
        host=living.engine.base_url,
        model=living.engine.model_name,
        prompts=prompts,
        request_extras=request_extras(
            living.engine, section, living.profile, fixed_length=cell.fixed_length, endpoint=endpoint
        ),
        headers=section.headers,
        endpoint=endpoint,
        objectives=living.profile.objectives.model_dump() if living.profile.objectives else {},
        max_tokens_field=living.max_tokens_fields[endpoint],
        seed=living.profile.seed,
        append=resumed,
        keep_raw=living.keep_raw,
    )
    label = f"{section.name} r{living.life.round} {cell.label}"
    total = None if cell.duration_s or cell.searches_capacity else cell.requests or owed or None
    with (
        around(living.profile.hooks, _hook_target(living, cell, folder), living.display),
        living.display.cell(label, total, folder.requests, seen=resumed) as shown,
    ):
        result = run_load(load, engine_alive=living.process.alive, on_tick=shown.tick)
    if result.engine_died or _is_gone(living.engine, folder, result):
        raise BenchError(f"{label}: the engine died: {living.process.why_it_ended()}")
    if not result.complete:
        raise BenchError(f"{label}: the load did not complete: {result.why}")
    return result.exit_code == 0


def _hook_target(living: LivingEngine, cell: Cell, folder: CellFolder) -> Target:
    return Target(
        engine=living.life.engine.name,
        baseline=living.profile.baseline,
        pid=living.process.pid,
        port=living.engine.config.port,
        url=living.engine.base_url,
        cell=cell.label,
        round=living.life.round,
        folder=folder,
    )


def _is_gone(engine: Engine, folder: CellFolder, result: LoadResult) -> bool:
    """Whether a server that was not started here is the cause of failed requests: of it no process can be watched."""
    if engine.started_here or result.exit_code == 0 or engine.is_ready():
        return False
    mark_engine_gone(folder)
    return True


def _prompts(workload: Path, folder: CellFolder, cell: Cell, *, resumed: bool) -> tuple[Path, int]:
    """The file with what is to be asked, and how many measured requests that makes where all of it is asked once."""
    prompts = tasks.read_prompts(workload)
    if resumed:
        prompts = missing_prompts(folder, prompts, cell.samples)
    owed = sum(prompt.pool == "measure" for prompt in prompts) * cell.samples
    if not resumed:
        return workload, owed
    missing = folder.path / "prompts.missing.jsonl"
    tasks.write_prompts(missing, prompts)
    return missing, owed


def missing_prompts(folder: CellFolder, prompts: Iterable[Prompt], samples: int) -> list[Prompt]:
    """Prompts of an interrupted quality cell that still need an answer, and all warm-up prompts.

    An error from the engine counts as an answer. A request that was cut by the end of the run, the engine or the
    connection is sent again.
    """
    answered: dict[str, set[int]] = {}
    if folder.requests.exists():
        for record in read_records(folder.requests):
            if record.measured and (not record.failed or (record.error or {}).get("kind") not in ASKED_AGAIN):
                answered.setdefault(record.prompt_id, set()).add(record.sample)
    return [
        prompt for prompt in prompts if prompt.pool == "warmup" or len(answered.get(prompt.prompt_id, set())) < samples
    ]
