"""The life of an engine's process, the same for all: alone on the machine, ready in time, gone without a trace."""

from __future__ import annotations

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

import psutil

from engines import _leftovers
from engines._base import Engine, EngineError
from engines._explain import explain_exit
from engines._gpu import CoTenant, cotenants, memory_mib, visible_gpus
from engines._machine import require_gpu
from engines._meter import metering
from engines._port import port_is_free, require_free_port

ROOT = Path(__file__).resolve().parent.parent
STOP_GRACE_S = 10.0
# Supervisor: grace, then its own limit for SIGKILL, then this.
STOP_LIMIT_S = STOP_GRACE_S + 40.0
LOG_TAIL_BYTES = 8192
VRAM_BACK_S = 10.0
VRAM_TOLERANCE_MIB = 64.0
# Keys for the client's requests; no engine needs to see them.
CLIENT_SECRETS = ("ENGINEBENCH_API_KEY", "OPENAI_API_KEY")


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
        self.vram_before_mib: float | None = None
        self.vram_ready_mib: float | None = None
        self.vram_after_mib: float | None = None
        self.cotenants: list[CoTenant] | None = None
        self._life = uuid.uuid4().hex
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None

    def alive(self) -> bool:
        """Whether the process lives; for an engine that was not started here, always."""
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
            self.vram_before_mib = self._vram()
            self.cotenants = cotenants(self._gpus())
            self._spawn()
        try:
            while not engine.is_ready():
                if not self.alive():
                    raise EngineError(self._why_it_ended())
                if time.monotonic() - started > ready_timeout_s:
                    raise EngineError(self._not_ready(ready_timeout_s))
                time.sleep(0.1)
            if not self.alive():
                # Something else answers on that port.
                raise EngineError(self._why_it_ended())
        except BaseException:
            self.stop()
            raise
        self.ready_s = round(time.monotonic() - started, 3)
        if engine.started_here:
            self.vram_ready_mib = self._vram()

    def stop(self) -> None:
        """End the process and its family and look whether anything is left. Safe to call twice."""
        if self._supervisor is None or self._lifeline is None or self.pid is None:
            return
        self._note_cotenants()
        os.close(self._lifeline)
        self._lifeline = None
        try:
            code = self._supervisor.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            code = self._supervisor.wait()
        self.exit_code = 128 - code if 128 < code < 128 + signal.NSIG else code
        left = _leftovers.family(self.pid, self._life)
        if left:
            # Only where the supervisor itself was killed, or a process hangs in the kernel.
            _leftovers.end_processes(left, STOP_GRACE_S)
            left = _leftovers.family(self.pid, self._life)
        self.processes_left = len(left)
        self.port_free_after = port_is_free(self.engine.config.host, self.engine.config.port)
        self.vram_after_mib = self._vram_back()
        if not left:
            _leftovers.forget(self.pid)

    def machine(self) -> dict[str, Any]:
        """The machine around this life, for engine.json; None where it was not started here or not measured."""
        return {
            "vram_before_mib": self.vram_before_mib,
            "vram_ready_mib": self.vram_ready_mib,
            "vram_after_mib": self.vram_after_mib,
            "port_free_after": self.port_free_after,
            "processes_left": self.processes_left,
            "cotenants": None if self.cotenants is None else [str(other) for other in self.cotenants],
        }

    def _spawn(self) -> None:
        lifeline_read, self._lifeline = os.pipe()
        status_read, status_write = os.pipe()
        command = [sys.executable, "-m", "engines._supervise", str(lifeline_read), str(status_write), str(STOP_GRACE_S)]
        environment = {name: value for name, value in os.environ.items() if name not in CLIENT_SECRETS}
        with self.log.open("wb") as log:
            self._supervisor = subprocess.Popen(
                [*command, "--", *self.engine.argv()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**environment, **self.engine.env(), _leftovers.LIFE_VARIABLE: self._life},
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
        _leftovers.remember(self.pid, self.engine.config.name, self._life)

    def _gpus(self) -> list[int] | None:
        return visible_gpus(self.engine.env())

    def _vram(self) -> float | None:
        memory = memory_mib(self._gpus())
        return None if memory is None else round(memory[0], 1)

    def _vram_back(self) -> float | None:
        """Memory in use after the end, once it is back where it was, or at the latest after VRAM_BACK_S."""
        deadline = time.monotonic() + VRAM_BACK_S
        while True:
            now = self._vram()
            if now is None or self.vram_before_mib is None or now <= self.vram_before_mib + VRAM_TOLERANCE_MIB:
                return now
            if time.monotonic() > deadline:
                return now
            time.sleep(0.2)

    def _note_cotenants(self) -> None:
        """Who came onto the GPU while the engine ran, besides it."""
        if self.cotenants is None:
            return
        ours = frozenset(process.pid for process in _leftovers.family(self.pid, self._life))
        known = {other.pid for other in self.cotenants}
        for other in cotenants(self._gpus(), ours=ours) or []:
            # In a container NVML may give the host's pids: one that can't be seen may be the engine itself.
            if other.pid not in known and psutil.pid_exists(other.pid):
                self.cotenants.append(other)

    def _why_it_ended(self) -> str:
        assert self._supervisor is not None
        code = self._supervisor.wait()
        tail = log_tail(self.log)
        name = self.engine.config.name
        known = self.engine.explain_exit(tail, code) or explain_exit(tail, code)
        if known:
            return f"{name}: {known}"
        is_signal = 128 < code < 128 + signal.NSIG
        how = f"signal {signal.Signals(code - 128).name}" if is_signal else f"exit code {code}"
        last = " | ".join([line.strip() for line in tail.splitlines() if line.strip()][-4:])
        return f"{name}: ended while starting ({how}); its log {self.log} ends: {last or 'empty'}"

    def _not_ready(self, timeout_s: float) -> str:
        if not self.engine.started_here:
            return f"{self.engine.config.name}: no server answers at {self.engine.base_url} (waited {timeout_s:g} s)"
        last = next((line for line in reversed(log_tail(self.log).splitlines()) if line.strip()), "empty")
        return f"{self.engine.config.name}: not ready within {timeout_s:g} s; its log {self.log} ends: {last}"


class running:  # noqa: N801 - reads as a word: `with running(engine, log, ...) as alive:`
    """An engine's life as a context: started and ready inside, gone after; the GPU metered into `gpu_log` meanwhile.

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
            stack.enter_context(metering(self._gpu_log))
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


def log_tail(path: Path) -> str:
    """The last few KiB of a log as text."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            return log.read().decode("utf-8", "replace")
    except OSError:
        return ""
