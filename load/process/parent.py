"""A load process ends with who started it, also where that was killed and could not say so."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

DRIVER_PID = "ENGINEBENCH_DRIVER_PID"
"""The environment variable by which a driver says that this process is its own."""
_PR_SET_PDEATHSIG = 1
_IMPORTED_BY = os.getpid()
"""The process that read the scenario's file: Locust forks its workers after that."""


def end_with_driver() -> None:
    """Ask the kernel for a SIGTERM when the parent dies, where a driver is the parent; else leave all as it is.

    With SIGTERM, not SIGKILL: what is in flight still ends and is written, within the drain timeout.
    """
    driver = os.environ.get(DRIVER_PID, "")
    if driver.isdigit():
        _end_with(int(driver))


def end_with_master() -> None:
    """The same for a worker that `--processes` forked: without its master it would wait a minute for a heartbeat.

    It leaves the master's process group, too: a Ctrl-C at the terminal, or a signal to the group, is for the master,
    which has its workers drain; one that also took it would be gone with all that it had in flight.
    """
    if os.getpid() != _IMPORTED_BY:
        os.setpgid(0, 0)
        _end_with(_IMPORTED_BY)


def _end_with(pid: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if not _is_alive(pid):
        # It died before the kernel knew of our wish.
        os.kill(os.getpid(), signal.SIGTERM)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
