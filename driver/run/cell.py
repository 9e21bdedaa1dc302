"""Runs one cell on a running engine: finds the prompts that still need an answer, runs the load, reports its end."""

from __future__ import annotations

import itertools
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
from driver.run.plan import EngineRound
from driver.run.progress import Display
from engines import Engine, RunningEngine
from records import ASKED_AGAIN, CellFolder, RoundFolder, RunFolder, read_records
from workloads import Prompt, asked_id


@dataclass(frozen=True, slots=True)
class LivingEngine:
    """A running engine, with the facts of the run that its cells need."""

    run: RunFolder
    profile: Profile
    planned: EngineRound
    engine: Engine
    process: RunningEngine
    display: Display
    max_tokens_fields: Mapping[str, str]
    """By endpoint: the engine's request field for the largest length of an answer."""
    keep_raw: bool = False

    @property
    def folder(self) -> RoundFolder:
        return self.run.round(self.planned.engine.name, self.planned.number)


def run_cell(living: LivingEngine, cell: Cell) -> bool:
    """Run the requests of a cell that still need an answer.

    Returns:
        Whether all its measured requests were ok.

    Raises:
        BenchError: the engine died, or the load ended before it was complete.
    """
    folder = living.folder.cell(cell.label)
    folder.path.mkdir(parents=True, exist_ok=True)
    # An interrupted performance load cannot be continued; a quality cell can, because each answer is independent.
    resumed = cell.asks_each_once and folder.requests.exists()
    if not resumed:
        folder.set_aside()
    try:
        if resumed:
            earlier = living.run.round(living.planned.engine.name, living.planned.number).earlier_states()
            name_cut_requests(folder, earlier)
        prompts, remaining = _prompts(living.run.workload(cell.workload_name), folder, cell, resumed=resumed)
        if resumed and not remaining:
            mark_complete(folder)
            return not any(record.failed for record in read_records(folder.requests) if record.measured)
    except ValueError as error:
        raise BenchError(f"{error}; the file is damaged: start a new run, or move it away to ask again") from None
    section = living.planned.engine
    endpoint = living.profile.endpoint_of(cell)
    load = Load(
        cell=cell,
        folder=folder,
        engine=section.name,
        round=living.planned.number,
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
    label = f"{section.name} r{living.planned.number} {cell.label}"
    total = None if cell.duration_s or cell.searches_capacity else remaining or None
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
        engine=living.planned.engine.name,
        baseline=living.profile.baseline,
        pid=living.process.pid,
        port=living.engine.config.port,
        url=living.engine.base_url,
        cell=cell.label,
        round=living.planned.number,
        folder=folder,
    )


def _is_gone(engine: Engine, folder: CellFolder, result: LoadResult) -> bool:
    """Whether a remote server has gone and caused the failed requests. Its process cannot be watched from here."""
    if engine.started_here or result.exit_code == 0 or engine.is_ready():
        return False
    mark_engine_gone(folder)
    return True


def _prompts(workload: Path, folder: CellFolder, cell: Cell, *, resumed: bool) -> tuple[Path, int]:
    """The file of the prompts to ask, and the number of measured requests, of which each turn is one."""
    prompts = tasks.read_prompts(workload)
    if resumed:
        prompts = missing_prompts(folder, prompts, cell.samples)
    turns = [len(prompt.turns) or 1 for prompt in prompts if prompt.pool == "measure"]
    asked = itertools.islice(itertools.cycle(turns), cell.asked) if cell.asked and turns else turns * cell.samples
    remaining = sum(asked)
    if not resumed:
        return workload, remaining
    missing = folder.path / "prompts.missing.jsonl"
    tasks.write_prompts(missing, prompts)
    return missing, remaining


def missing_prompts(folder: CellFolder, prompts: Iterable[Prompt], samples: int) -> list[Prompt]:
    """Prompts of an interrupted quality cell that still need an answer, and all warm-up prompts.

    An error from the engine counts as an answer. A request that was cut by the end of the run, the engine or the
    connection is sent again. A conversation that has not come to its last turn, nor to an error, begins again.
    """
    answered: dict[str, set[int]] = {}
    if folder.requests.exists():
        for record in read_records(folder.requests):
            counts = record.measured and (not record.failed or (record.error or {}).get("kind") not in ASKED_AGAIN)
            if counts and (record.failed or record.turn == record.turns):
                answered.setdefault(asked_id(record.prompt_id, record.turn), set()).add(record.sample)
    return [
        prompt for prompt in prompts if prompt.pool == "warmup" or len(answered.get(prompt.prompt_id, set())) < samples
    ]
