"""Starts and stops an engine process: alone on the machine, ready in time, stopped with all its children."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from engines.base import Engine, EngineError
from engines.machine.checks import require_gpu
from engines.machine.gpu_neighbours import Surroundings
from engines.process.exit_reason import log_tail, why_it_ended
from engines.process.port import port_is_free, require_free_port
from engines.process.supervised import ROOT, StartError, Supervised
from engines.telemetry.gpu import visible_gpus
from engines.telemetry.meter import metering

STOP_GRACE_S = 10.0


class RunningEngine:
    """A running engine: its process and, later, how it ended."""

    def __init__(self, engine: Engine, log: Path) -> None:
        self.engine = engine
        self.log = log
        self.ready_s: float | None = None
        self.pid: int | None = None
        self.exit_code: int | None = None
        """The process's exit code; -n if signal n ended it."""
        self.processes_left: int | None = None
        self.port_free_after: bool | None = None
        self._surroundings = Surroundings(engine)
        self._process: Supervised | None = None

    def alive(self) -> bool:
        """Whether the process runs. Always true for an engine that was not started here."""
        return self._process is None or self._process.alive()

    def start(self, ready_timeout_s: float) -> None:
        """Start the process and wait until it takes requests.

        Raises:
            EngineError: it can't be started, ends early, or is not ready in time; nothing is left running.
        """
        engine = self.engine
        engine.check()
        started = time.monotonic()
        if engine.started_here:
            require_free_port(engine.config.host, engine.config.port)
            require_gpu(engine)
            self._surroundings.before()
            self._spawn()
        try:
            while not engine.is_ready():
                if not self.alive():
                    raise EngineError(f"{engine.config.name}: while starting: {self.why_it_ended()}")
                if time.monotonic() - started > ready_timeout_s:
                    raise EngineError(self._not_ready(ready_timeout_s))
                time.sleep(0.1)
            if not self.alive():
                # Another process answers on that port.
                raise EngineError(f"{engine.config.name}: while starting: {self.why_it_ended()}")
        except BaseException:
            self.stop()
            raise
        self.ready_s = round(time.monotonic() - started, 3)
        if engine.started_here:
            self._surroundings.ready()

    def stop(self) -> None:
        """Stop the process and its family, and check whether anything is left. It may be called twice."""
        process = self._process
        if process is None or process.stopped:
            return
        self._surroundings.ending(frozenset(each.pid for each in process.family()))
        code = process.stop()
        self.exit_code = 128 - code if 128 < code < 128 + signal.NSIG else code
        self.processes_left = len(process.family())
        self.port_free_after = port_is_free(self.engine.config.host, self.engine.config.port)
        self._surroundings.after()
        if not self.processes_left:
            process.forget()

    def machine(self) -> dict[str, Any]:
        """The machine while this process ran, for engine.json. None: not started here, or not measured."""
        return {
            **self._surroundings.to_dict(),
            "port_free_after": self.port_free_after,
            "processes_left": self.processes_left,
        }

    def _spawn(self) -> None:
        # Remembers their secrets, which are then scrubbed from the log and from all messages.
        self.engine.shown_argv()
        self.engine.shown_env()
        engine = self.engine
        folder = Path(engine.cwd or ROOT)
        try:
            self._process = Supervised(
                engine.argv(), env=engine.env(), folder=folder, log=self.log, grace_s=STOP_GRACE_S
            )
        except StartError as error:
            raise EngineError(f"{engine.config.name}: cannot be started: {error}") from None
        self.pid = self._process.pid
        self._process.remember(engine.config.name)

    def why_it_ended(self) -> str:
        """Why the process ended by itself, as text: a known line of its log, a signal, or its last lines."""
        if self._process is None:
            return f"no server answers at {self.engine.base_url} any more"
        return why_it_ended(self.engine, self.log, self._process.wait())

    def _not_ready(self, timeout_s: float) -> str:
        name = self.engine.config.name
        if not self.engine.started_here:
            fix = self.engine.unreachable or "start it, fix `url`, or wait longer with `ready_timeout_s`"
            return f"{name}: no server answers at {self.engine.base_url} (waited {timeout_s:g} s); {fix}"
        last = next((line for line in reversed(log_tail(self.log).splitlines()) if line.strip()), "empty")
        return f"{name}: not ready within {timeout_s:g} s; its log {self.log} ends: {last}"


class running:  # noqa: N801 - used like a function: `with running(engine, log, ...) as alive:`
    """Run an engine process inside the block: ready at its start, stopped at its end. Meters its GPUs into `gpu_log`.

    Raises:
        EngineError: on entry, as `RunningEngine.start`.
    """

    def __init__(self, engine: Engine, log: Path, *, ready_timeout_s: float, gpu_log: Path | None = None) -> None:
        self._life = RunningEngine(engine, log)
        self._ready_timeout_s = ready_timeout_s
        self._gpu_log = gpu_log if engine.started_here else None
        self._stack = ExitStack()

    def __enter__(self) -> RunningEngine:
        with ExitStack() as stack:
            stack.enter_context(metering(self._gpu_log, visible_gpus(self._life.engine.env())))
            self._life.start(self._ready_timeout_s)
            self._stack = stack.pop_all()
        return self._life

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._life.stop()
        finally:
            self._stack.close()
