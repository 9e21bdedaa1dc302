"""Runs a command under the supervisor, which stops it and all its children when this process ends in any way."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from engines.process import leftovers
from records.redaction import CLIENT_KEYS, known_secrets

ROOT = Path(__file__).resolve().parents[2]
# Extra time after the supervisor's grace and its limit for SIGKILL.
STOP_MARGIN_S = 40.0


class StartError(Exception):
    """The command cannot be started; the message says why."""


class Supervised:
    """A running command, in its own session.

    Args:
        argv: the command.
        env: variables that only the command gets.
        folder: its working directory.
        log: file for its standard output and error, which known secrets never reach.
        grace_s: seconds from SIGTERM to SIGKILL when it is stopped.

    Raises:
        StartError: the command cannot be started.
    """

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], folder: Path, log: Path, grace_s: float) -> None:
        self._mark = uuid.uuid4().hex
        self._grace_s = grace_s
        lifeline_read, lifeline = os.pipe()
        status_read, status_write = os.pipe()
        command = [sys.executable, "-m", "engines.process.supervisor", str(lifeline_read), str(status_write)]
        # Separate from the supervisor's environment, which a PYTHONPATH of the command must not break.
        order = {
            "command": list(argv),
            "environment": dict(env),
            "folder": str(folder),
            "grace_s": grace_s,
            "secrets": known_secrets(),
        }
        environment = {name: value for name, value in os.environ.items() if name not in CLIENT_KEYS}
        with log.open("wb") as out:
            self._supervisor = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env={**environment, leftovers.LIFE_VARIABLE: self._mark},
                cwd=ROOT,
                pass_fds=(lifeline_read, status_write),
                start_new_session=True,
            )
        os.close(lifeline_read)
        os.close(status_write)
        assert self._supervisor.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._supervisor.stdin as stdin:
            stdin.write(json.dumps(order).encode())
        with os.fdopen(status_read) as status:
            word, _, rest = status.readline().strip().partition(" ")
        if word != "pid":
            os.close(lifeline)
            self._supervisor.wait()
            raise StartError(rest or "the supervisor failed")
        self._lifeline: int | None = lifeline
        self.pid = int(rest)

    def alive(self) -> bool:
        """Whether the command, or the stopping of its family, is still in progress."""
        return self._supervisor.poll() is None

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait until the command and all its children have ended; returns the exit code, 128 + n for signal n.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        code = self._supervisor.wait(timeout_s)
        # Negative if the supervisor itself was killed, and the command with it.
        return 128 - code if code < 0 else code

    def stop(self) -> int:
        """Stop it and its family by SIGTERM, then SIGKILL; returns its exit code. It may be called twice."""
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        try:
            code = self.wait(self._grace_s + STOP_MARGIN_S)
        except subprocess.TimeoutExpired:
            self._supervisor.kill()
            code = self.wait()
        if left := self.family():
            # Happens only if the supervisor itself was killed, or a process hangs in the kernel.
            leftovers.end_processes(left, self._grace_s)
        return code

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._lifeline is None

    def family(self) -> list[psutil.Process]:
        """All its running processes."""
        return leftovers.family(self.pid, self._mark)

    def remember(self, name: str) -> None:
        """Write a note, so that `doctor --clean` finds its remaining processes."""
        leftovers.remember(self.pid, name, self._mark)

    def forget(self) -> None:
        """Drop that note."""
        leftovers.forget(self.pid)
