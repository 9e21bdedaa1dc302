"""The life of an engine's process, the same for all: alone on its port, ready by a deadline, gone without a trace."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from engines import _leftovers
from engines._base import Engine, EngineError

ROOT = Path(__file__).resolve().parent.parent
STOP_GRACE_S = 10.0
LOG_TAIL_BYTES = 8192


class RunningEngine:
    """An engine that is up; its process, and how it ended once it has."""

    def __init__(self, engine: Engine, log: Path) -> None:
        self.engine = engine
        self.log = log
        self.ready_s: float | None = None
        self.pid: int | None = None
        self.exit_code: int | None = None
        self.processes_left: int | None = None
        self.port_free_after: bool | None = None
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

    def stop(self) -> None:
        """End the process and its family and look whether anything is left. Safe to call twice."""
        if self._supervisor is None or self._lifeline is None:
            return
        os.close(self._lifeline)
        self._lifeline = None
        code = self._supervisor.wait()
        self.exit_code = 128 - code if 128 < code < 128 + signal.NSIG else code
        assert self.pid is not None
        self.processes_left = len(family(self.pid))
        self.port_free_after = port_is_free(self.engine.config.host, self.engine.config.port)
        _leftovers.forget(self.pid)

    def machine(self) -> dict[str, Any]:
        """What was left of it, for engine.json; None where it was not started here."""
        return {"port_free_after": self.port_free_after, "processes_left": self.processes_left}

    def _spawn(self) -> None:
        lifeline_read, self._lifeline = os.pipe()
        status_read, status_write = os.pipe()
        command = [sys.executable, "-m", "engines._supervise", str(lifeline_read), str(status_write), str(STOP_GRACE_S)]
        with self.log.open("wb") as log:
            self._supervisor = subprocess.Popen(
                [*command, "--", *self.engine.argv()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.engine.env()},
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
        _leftovers.remember(self.pid, self.engine.config.name)

    def _why_it_ended(self) -> str:
        assert self._supervisor is not None
        code = self._supervisor.wait()
        tail = log_tail(self.log)
        name = self.engine.config.name
        if code == 128 + signal.SIGILL:
            return (
                f"{name}: ended by SIGILL: its binary has instructions that this CPU does not run (a virtual machine"
                " may advertise AMX and trap on it); build it with GGML_NATIVE=OFF: run_bench.py build"
            )
        known = self.engine.explain_exit(tail, code)
        if known:
            return f"{name}: {known}"
        how = f"signal {signal.Signals(code - 128).name}" if 128 < code < 128 + signal.NSIG else f"exit code {code}"
        last = " | ".join(line for line in tail.splitlines()[-4:] if line.strip())
        return f"{name}: ended while starting ({how}); its log {self.log} ends: {last or 'empty'}"

    def _not_ready(self, timeout_s: float) -> str:
        if not self.engine.started_here:
            return f"{self.engine.config.name}: no server answers at {self.engine.base_url} (waited {timeout_s:g} s)"
        last = next(iter(reversed(log_tail(self.log).splitlines())), "empty")
        return f"{self.engine.config.name}: not ready within {timeout_s:g} s; its log {self.log} ends: {last}"


class running:  # noqa: N801 - reads as a word: `with running(engine, log, ...) as alive:`
    """An engine's life as a context: started and ready inside, gone after.

    Raises:
        EngineError: on entry, as `RunningEngine.start`.
    """

    def __init__(self, engine: Engine, log: Path, *, ready_timeout_s: float) -> None:
        self._life = RunningEngine(engine, log)
        self._ready_timeout_s = ready_timeout_s

    def __enter__(self) -> RunningEngine:
        self._life.start(self._ready_timeout_s)
        return self._life

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._life.stop()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def port_is_free(host: str, port: int | None) -> bool:
    """Whether a server could listen there."""
    if port is None:
        return True
    with socket.socket() as probe:
        # As servers do: a connection in TIME_WAIT is no occupant.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def require_free_port(host: str, port: int | None) -> None:
    """Check the port before a start.

    Raises:
        EngineError: it is taken; the message names the process where that can be seen.
    """
    if port_is_free(host, port):
        return
    holder = ""
    try:
        for connection in psutil.net_connections("tcp"):
            if (
                connection.status == psutil.CONN_LISTEN
                and connection.laddr
                and connection.laddr.port == port
                and connection.pid
            ):
                holder = f" by pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    except (psutil.Error, OSError):
        pass
    raise EngineError(f"port {port} on {host} is in use{holder}; end that process or give the engine another `port`")


def family(pid: int) -> list[psutil.Process]:
    """What lives of a process's group and descendants."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.pid == pid or os.getpgid(process.pid) == pid
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess, PermissionError):
            continue
    return found


def log_tail(path: Path) -> str:
    """The last few KiB of a log as text."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            return log.read().decode("utf-8", "replace")
    except OSError:
        return ""
