"""A load process ends with the driver that started it, also where that was killed and could not say so."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

DRIVER_PID = "ENGINEBENCH_DRIVER_PID"
"""The environment variable by which a driver says that this process is its own."""
_PR_SET_PDEATHSIG = 1


def end_with_driver() -> None:
    """Ask the kernel for a SIGTERM when the parent dies, where a driver is the parent; else leave all as it is.

    With SIGTERM, not SIGKILL: what is in flight still ends and is written, within the drain timeout. Called in each
    process of a distributed run, since a fork does not inherit the request.
    """
    driver = os.environ.get(DRIVER_PID, "")
    if not driver.isdigit() or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if not _is_alive(int(driver)):
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
