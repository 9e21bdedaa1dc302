"""Starts and stops an engine process: alone on the machine, ready in time, stopped with all its children."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from engines.base import Engine, EngineError
from engines.machine.checks import require_gpu
from engines.machine.gpu_neighbours import Surroundings
from engines.process import leftovers
from engines.process.exit_reason import log_tail, why_it_ended
from engines.process.port import port_is_free, require_free_port
from engines.telemetry.gpu import visible_gpus
from engines.telemetry.meter import metering
from records.redaction import CLIENT_KEYS, scrub_file

ROOT = Path(__file__).resolve().parents[2]
STOP_GRACE_S = 10.0
# Supervisor: grace, then its own limit for SIGKILL, then this.
STOP_LIMIT_S = STOP_GRACE_S + 40.0


class RunningEngine:
    """An engine that is up; its process, and how it ended once it has."""

    def __init__(self, engine: Engine, log: Path) -> None:
        self.engine = engine
        self.log = log
        self.ready_s: float | None = None
        self.pid: int | None = None
        self.exit_code: int | None = None
        """The process's exit code; -n where signal n ended it."""
        self.processes_left: int | None = None
        self.port_free_after: bool | None = None
        self._surroundings = Surroundings(engine)
        self._life = uuid.uuid4().hex
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None

    def alive(self) -> bool:
        """Whether the process runs. Always true for an engine that was not started here."""
        return self._supervisor is None or self._supervisor.poll() is None

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
                # Something else answers on that port.
                raise EngineError(f"{engine.config.name}: while starting: {self.why_it_ended()}")
        except BaseException:
            self.stop()
            raise
        self.ready_s = round(time.monotonic() - started, 3)
        if engine.started_here:
            self._surroundings.ready()

    def stop(self) -> None:
        """End the process and its family and look whether anything is left. Safe to call twice."""
        if self._supervisor is None or self._lifeline is None or self.pid is None:
            return
        self._surroundings.ending(frozenset(each.pid for each in leftovers.family(self.pid, self._life)))
        os.close(self._lifeline)
        self._lifeline = None
        try:
            code = self._supervisor.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            code = self._supervisor.wait()
        scrub_file(self.log)
        self.exit_code = 128 - code if 128 < code < 128 + signal.NSIG else code
        left = leftovers.family(self.pid, self._life)
        if left:
            # Only where the supervisor itself was killed, or a process hangs in the kernel.
            leftovers.end_processes(left, STOP_GRACE_S)
            left = leftovers.family(self.pid, self._life)
        self.processes_left = len(left)
        self.port_free_after = port_is_free(self.engine.config.host, self.engine.config.port)
        self._surroundings.after()
        if not left:
            leftovers.forget(self.pid)

    def machine(self) -> dict[str, Any]:
        """The machine while this process ran, for engine.json. None: not started here, or not measured."""
        return {
            **self._surroundings.to_dict(),
            "port_free_after": self.port_free_after,
            "processes_left": self.processes_left,
        }

    def _spawn(self) -> None:
        # What is hidden in them is remembered, and scrubbed from the log and from all messages.
        self.engine.shown_argv()
        self.engine.shown_env()
        lifeline_read, self._lifeline = os.pipe()
        status_read, status_write = os.pipe()
        command = [
            sys.executable,
            "-m",
            "engines.process.supervisor",
            str(lifeline_read),
            str(status_write),
            str(STOP_GRACE_S),
            str(self.engine.cwd or ROOT),
        ]
        environment = {name: value for name, value in os.environ.items() if name not in CLIENT_KEYS}
        with self.log.open("wb") as log:
            self._supervisor = subprocess.Popen(
                [*command, "--", *self.engine.argv()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={
                    **environment,
                    leftovers.ENGINE_ENVIRONMENT: json.dumps(self.engine.env()),
                    leftovers.LIFE_VARIABLE: self._life,
                },
                cwd=ROOT,
                pass_fds=(lifeline_read, status_write),
                start_new_session=True,
            )
        os.close(lifeline_read)
        os.close(status_write)
        with os.fdopen(status_read) as status:
            word, _, rest = status.readline().strip().partition(" ")
        if word != "pid":
            os.close(self._lifeline)
            self._lifeline = None
            self._supervisor.wait()
            raise EngineError(f"{self.engine.config.name}: cannot be started: {rest or 'the supervisor failed'}")
        self.pid = int(rest)
        leftovers.remember(self.pid, self.engine.config.name, self._life)

    def why_it_ended(self) -> str:
        """In words, for a process that ended by itself: a telling line of its log, a signal, or its last lines."""
        if self._supervisor is None:
            return f"no server answers at {self.engine.base_url} any more"
        code = self._supervisor.wait()
        # Negative where the supervisor itself was killed, and the engine with it.
        return why_it_ended(self.engine, self.log, 128 - code if code < 0 else code)

    def _not_ready(self, timeout_s: float) -> str:
        name = self.engine.config.name
        if not self.engine.started_here:
            fix = self.engine.unreachable or "start it, fix `url`, or wait longer with `ready_timeout_s`"
            return f"{name}: no server answers at {self.engine.base_url} (waited {timeout_s:g} s); {fix}"
        last = next((line for line in reversed(log_tail(self.log).splitlines()) if line.strip()), "empty")
        return f"{name}: not ready within {timeout_s:g} s; its log {self.log} ends: {last}"


class running:  # noqa: N801 - reads as a word: `with running(engine, log, ...) as alive:`
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
