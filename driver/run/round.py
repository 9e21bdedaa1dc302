"""Runs one round of an engine: start, read-back, probe, cells, stop. Records each stage in engine.json."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from driver.errors import BenchError, Stopped
from driver.profile.read import EngineSection, Profile
from driver.run.cell import LivingEngine, run_cell
from driver.run.engine_setup import describe_weights, make_engine, ready_timeout_s
from driver.run.mode_check import refuse_changed, refuse_disproved
from driver.run.pinning import pinned
from driver.run.plan import EngineRound, pending
from driver.run.progress import Display
from engines import Engine, EngineError, RunningEngine, probe, running
from engines.telemetry.host import host_metering
from records import SCHEMA_VERSION, JsonObject, RoundFolder, RunFolder, read_json, set_aside, write_json
from records.utc import utc_now


def run_engine_round(
    run: RunFolder, profile: Profile, round_: EngineRound, display: Display, *, keep_raw: bool = False
) -> bool:
    """Run the cells of an engine's round that are not complete.

    Returns:
        Whether every measured request of its cells was ok.

    Raises:
        BenchError: the engine cannot start, contradicts the profile, or died.
    """
    cells = pending(run, round_)
    if not cells:
        display.say(f"{round_.engine.name} round {round_.number}: complete already")
        return True
    folder = run.round(round_.engine.name, round_.number)
    folder.path.mkdir(parents=True, exist_ok=True)
    set_aside(folder.engine_json)
    set_aside(folder.server_log)
    engine = make_engine(round_.engine, profile, display)
    state = _initial_state(engine, round_, profile)
    display.say(f"{round_.engine.name} round {round_.number}: starting {round_.engine.kind}")
    all_ok = True
    with _up(engine, round_.engine, folder, state) as alive:
        readback = engine.read_log(engine.read_back(), folder.server_log)
        state["readback"] = readback.to_dict()
        sampling = profile.sampling.model_dump(exclude_none=True)
        probes = {
            endpoint: probe(
                engine,
                sampling=sampling,
                extras=round_.engine.request_extras,
                endpoint=endpoint,
                max_tokens_field=round_.engine.max_tokens_field,
            )
            for endpoint in profile.endpoints
        }
        state["probe"], *others = probes.values()
        state["probes_of_other_endpoints"] = others
        write_json(folder.engine_json, state)
        try:
            for each in probes.values():
                refuse_disproved(state | {"probe": each}, profile, round_.engine.name)
            refuse_changed(state, _other_processes(run, folder), profile, round_.engine.name)
        except BenchError as error:
            state["refused"] = error.message
            raise
        fields = {endpoint: str(each["max_tokens_field"]) for endpoint, each in probes.items()}
        living = LivingEngine(run, profile, round_, engine, alive, display, fields, keep_raw)
        for cell in cells:
            all_ok &= run_cell(living, cell)
    return all_ok


def _other_processes(run: RunFolder, folder: RoundFolder) -> Iterator[JsonObject]:
    """engine.json of the engine's other processes in this run."""
    for round_ in run.rounds(folder.engine):
        yield from round_.earlier_states()
        if round_.number != folder.number and round_.engine_json.exists():
            yield read_json(round_.engine_json)


@contextmanager
def _up(engine: Engine, section: EngineSection, folder: RoundFolder, state: JsonObject) -> Iterator[RunningEngine]:
    """Run the engine during the block and stop it afterwards; engine.json records how it ended.

    Raises:
        BenchError: the engine can't be started; engine.json records why.
    """
    stack = ExitStack()
    try:
        # Outside the pinning, because it watches the load generator's cores too.
        stack.enter_context(host_metering(folder.host))
        with pinned(section.cores):
            alive = stack.enter_context(
                running(engine, folder.server_log, ready_timeout_s=ready_timeout_s(engine, section), gpu_log=folder.gpu)
            )
    except EngineError as error:
        stack.close()
        state.update(stop_reason="never ready", error=str(error))
        write_json(folder.engine_json, state)
        raise BenchError(str(error)) from None
    state["ready_s"] = alive.ready_s
    try:
        yield alive
        state["stop_reason"] = "asked"
    except BaseException as error:
        state["stop_reason"] = _reason(error) if alive.alive() else "died"
        raise
    finally:
        # After an interrupt, too, the engine must be stopped and its end recorded.
        try:
            stack.close()
        finally:
            state.update(stopped_utc=utc_now(), exit_code=alive.exit_code, machine=alive.machine())
            state["log_findings"] = engine.log_findings(folder.server_log)
            write_json(folder.engine_json, state)


def _initial_state(engine: Engine, round_: EngineRound, profile: Profile) -> JsonObject:
    """engine.json before the engine's start."""
    config = engine.config
    return {
        "schema": SCHEMA_VERSION,
        "engine": config.name,
        "kind": config.kind,
        "round": round_.number,
        "argv": engine.shown_argv(),
        "env": engine.shown_env(),
        "base_url": engine.base_url,
        "model": engine.model_name,
        "asked": {
            "max_seq_len": config.max_seq_len,
            "slots": round_.engine.slots,
            "context_per_slot": config.max_seq_len,
            "threads": config.threads,
            "thinking": config.thinking,
            "cache": config.cache,
            "reserves_memory": engine.reserves_memory,
            "sampling": profile.sampling.model_dump(exclude_none=True),
        },
        "weights": describe_weights(config.model),
        "started_utc": utc_now(),
        "ready_s": None,
        "stopped_utc": None,
        "exit_code": None,
        "stop_reason": None,
        "error": None,
        "readback": None,
        "probe": None,
        "probes_of_other_endpoints": [],
        "provenance": engine.provenance(),
        "machine": None,
        "log_findings": None,
    }


def _reason(error: BaseException) -> str:
    return (
        "the run was stopped"
        if isinstance(error, Stopped | KeyboardInterrupt)
        else f"the run ended: {type(error).__name__}"
    )
