"""One life of an engine: start, read back, probe, its cells, stop; all of it written down in engine.json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from driver.errors import BenchError, ExitCode
from driver.load import Load, run_load
from driver.manifest import utc_now
from driver.pinning import pinned
from driver.plan import Life, pending
from driver.profile import Cell, EngineSection, Profile, resolve_model
from driver.progress import Display
from driver.resume import missing_prompts
from driver.weights import describe_weights
from engines import Engine, EngineConfig, EngineError, create, probe, running
from engines.convert import convert
from records import SCHEMA_VERSION, JsonObject, RoundFolder, RunFolder, write_json
from scoring import tasks


def model_path(section: EngineSection, display: Display) -> Path | None:
    """The model's file or folder; `convert:DIR` is converted now, unless that was done before.

    Raises:
        BenchError: it can't be converted.
    """
    if section.model is None or not section.model.startswith("convert:"):
        return resolve_model(section.model)
    folder = Path(section.model.removeprefix("convert:")).expanduser()
    python = section.options.get("converter_python")
    try:
        return convert(folder, None, python=Path(python) if python else None, source=None, say=display.say).path
    except EngineError as error:
        raise BenchError(str(error)) from None


def engine_config(section: EngineSection, profile: Profile, model: Path | None) -> EngineConfig:
    """What the engines package needs to know, from what the profile says."""
    return EngineConfig(
        name=section.name,
        kind=section.kind,
        model=model,
        model_name=section.model_name,
        port=section.port,
        slots=section.slots,
        max_seq_len=section.max_seq_len or profile.max_seq_len,
        threads=section.threads,
        binary=section.binary,
        args=section.args,
        env=section.env,
        url=section.url,
        options=section.options,
        thinking=profile.thinking,
        cache=profile.cache,
    )


def request_extras(engine: Engine, section: EngineSection, profile: Profile, cell: Cell) -> dict[str, Any]:
    """The request fields beyond messages: the profile's sampling, the engine's dialect, the profile's last word."""
    sampling = profile.sampling.model_dump(exclude_none=True)
    fields = engine.request_fields(sampling, fixed_length=cell.fixed_length)
    # The load client's own word for a fixed length; an engine with another one may refuse it. Null is left out.
    return {"ignore_eos": None, **fields, **section.request_extras}


def run_life(folder: RunFolder, profile: Profile, life: Life, display: Display) -> bool:
    """Run what one life of an engine still owes.

    Returns:
        Whether every measured request of its cells was ok.

    Raises:
        BenchError: the engine cannot start, was disproved by the probe, or died.
    """
    cells = pending(folder, life)
    if not cells:
        display.say(f"{life.engine.name} round {life.round}: complete already")
        return True
    round_folder = folder.round(life.engine.name, life.round)
    round_folder.path.mkdir(parents=True, exist_ok=True)
    set_aside(round_folder.engine_json)
    set_aside(round_folder.server_log)
    try:
        engine = create(engine_config(life.engine, profile, model_path(life.engine, display)))
        # Before the command line is made: it needs the binary.
        engine.check()
    except EngineError as error:
        raise BenchError(str(error)) from None
    state = _initial_state(engine, life, profile)
    display.say(f"{life.engine.name} round {life.round}: starting {life.engine.kind}")
    try:
        with pinned(life.engine.cores):
            context = running(
                engine,
                round_folder.server_log,
                ready_timeout_s=life.engine.ready_timeout_s,
                gpu_log=round_folder.gpu,
            )
            alive = context.__enter__()
    except EngineError as error:
        state.update(stop_reason="never ready", log_tail=str(error))
        write_json(round_folder.engine_json, state)
        raise BenchError(str(error)) from None
    all_ok = True
    try:
        state["ready_s"] = alive.ready_s
        state["readback"] = engine.read_back().to_dict()
        state["probe"] = probe(engine, sampling=profile.sampling.model_dump(exclude_none=True))
        write_json(round_folder.engine_json, state)
        refuse_disproved(state, profile, life.engine.name)
        for cell in cells:
            all_ok &= _run_cell(folder, round_folder, profile, life, engine, cell, alive.alive, display)
        state["stop_reason"] = "asked"
    except BaseException as error:
        state["stop_reason"] = "died" if not alive.alive() else f"the run ended: {type(error).__name__}"
        raise
    finally:
        # Even an interrupt must leave the engine stopped and its end on record.
        try:
            context.__exit__(None, None, None)
        finally:
            state.update(stopped_utc=utc_now(), exit_code=alive.exit_code, machine=alive.machine())
            state["log_findings"] = engine.log_findings(round_folder.server_log)
            write_json(round_folder.engine_json, state)
    return all_ok


def _initial_state(engine: Engine, life: Life, profile: Profile) -> JsonObject:
    """engine.json as far as it is known before the start."""
    config = engine.config
    return {
        "schema": SCHEMA_VERSION,
        "engine": config.name,
        "kind": config.kind,
        "round": life.round,
        "argv": engine.shown_argv(),
        "env": engine.shown_env(),
        "base_url": engine.base_url,
        "model": engine.model_name,
        "asked": {
            "max_seq_len": config.max_seq_len,
            "slots": config.slots,
            "context_per_slot": config.max_seq_len,
            "threads": config.threads,
            "thinking": config.thinking,
            "cache": config.cache,
            "sampling": profile.sampling.model_dump(exclude_none=True),
        },
        "weights": describe_weights(config.model),
        "started_utc": utc_now(),
        "ready_s": None,
        "stopped_utc": None,
        "exit_code": None,
        "stop_reason": None,
        "readback": None,
        "probe": None,
        "provenance": engine.provenance(),
        "machine": None,
        "log_findings": None,
    }


def _run_cell(
    folder: RunFolder,
    round_folder: RoundFolder,
    profile: Profile,
    life: Life,
    engine: Engine,
    cell: Cell,
    engine_alive: Callable[[], bool],
    display: Display,
) -> bool:
    """Run one cell; returns whether all its measured requests were ok.

    Raises:
        BenchError: the engine died, or the load ended before it was complete.
    """
    cell_folder = round_folder.cell(cell.label)
    cell_folder.path.mkdir(parents=True, exist_ok=True)
    prompts_path = folder.workload(cell.workload_name)
    prompts = tasks.read_prompts(prompts_path)
    # A broken load curve can't be glued, but an answer stands by itself.
    resume = cell.duration_s is None and not cell.requests and cell_folder.requests.exists()
    if resume:
        prompts = missing_prompts(cell_folder, prompts, cell.samples)
        prompts_path = cell_folder.path / "prompts.missing.jsonl"
        if any(prompt.pool == "measure" for prompt in prompts):
            tasks.write_prompts(prompts_path, prompts)
    else:
        cell_folder.set_aside()
    measured = sum(prompt.pool == "measure" for prompt in prompts) * cell.samples
    load = Load(
        cell=cell,
        folder=cell_folder,
        engine=life.engine.name,
        round=life.round,
        host=engine.base_url,
        model=engine.model_name,
        prompts=prompts_path,
        request_extras=request_extras(engine, life.engine, profile, cell),
        seed=profile.seed,
        append=resume,
    )
    label = f"{life.engine.name} r{life.round} {cell.label}"
    with display.cell(label, cell.requests or measured or None, cell_folder.requests, seen=resume) as shown:
        result = run_load(load, engine_alive=engine_alive, on_tick=shown.tick)
    if result.engine_died:
        raise BenchError(f"{label}: the engine died; its log ends: {last_line(round_folder.server_log)}")
    if not result.complete:
        raise BenchError(f"{label}: the load did not complete: {last_line(cell_folder.path / 'load.log')}")
    return result.exit_code == 0


def refuse_disproved(state: JsonObject, profile: Profile, name: str) -> None:
    """Stop before measuring what read-back or probe show to be another thing than the profile asks for.

    Raises:
        BenchError: naming what was disproved (exit code 3), unless the profile says `on_probe_failure = "void"`.
    """
    found = disproved(state, fixed_length=any(cell.fixed_length for cell in profile.cells))
    if found and profile.on_probe_failure == "refuse":
        how = 'mend the engine, or set on_probe_failure = "void" to run it all the same'
        raise BenchError(f"{name}: {'; '.join(found)}; {how}", ExitCode.VOID)


def disproved(state: JsonObject, *, fixed_length: bool) -> list[str]:
    """What an engine was asked to be and provably is not. What it can't tell is not in here: the audit shows it."""
    asked, readback, probed = state["asked"], state.get("readback") or {}, state.get("probe") or {}
    found = []
    context = readback.get("context_per_slot")
    if context is not None and context < asked["max_seq_len"]:
        found.append(f"each slot has {context:,} tokens of context, {asked['max_seq_len']:,} were asked for")
    slots = readback.get("slots")
    if slots is not None and slots != asked["slots"]:
        found.append(f"it runs {slots} slots, {asked['slots']} were asked for")
    if probed.get("thinking") is True and not asked["thinking"]:
        found.append("it thinks although thinking is off")
    if fixed_length and probed.get("fixed_length") is False:
        found.append("it does not obey a fixed output length")
    if probed.get("cache_hit") is True and not asked["cache"]:
        found.append("it answers from its prompt cache although cold prompts are asked for")
    if probed.get("sampling_accepted") is False:
        found.append("it refuses the sampling that the profile asks for")
    return found


def last_line(path: Path) -> str:
    """The last line of a log that says anything, for a one-line error."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"no log at {path}"
    return next((line.strip() for line in reversed(lines) if line.strip()), f"{path.name} is empty")


def set_aside(path: Path) -> None:
    """Keep a file of an earlier life under the next free name `<stem>.partial-<k><suffix>`."""
    k = 1
    while (aside := path.with_name(f"{path.stem}.partial-{k}{path.suffix}")).exists():
        k += 1
    if path.exists():
        path.rename(aside)
