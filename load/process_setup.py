"""Sets up the load process: garbage collector, Ctrl-C, and its end when its parent dies."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys

import gevent
from gevent.hub import get_hub

DRIVER_PID = "ENGINEBENCH_DRIVER_PID"
"""Environment variable with the driver's process id, for a load process that the driver starts."""
YOUNG_OBJECTS = 50_000
"""New container objects before Python collects the youngest generation: a few ms of work every few seconds."""
_PR_SET_PDEATHSIG = 1
_IMPORTED_BY = os.getpid()
"""The process that imported the locustfile. Locust forks the workers of `--processes` after that."""


def is_forked() -> bool:
    """Whether `--processes` forked this process."""
    return os.getpid() != _IMPORTED_BY


def freeze_garbage() -> None:
    """Collect garbage once, then exclude all objects that exist now from later collections.

    A full collection visits all objects of Locust's imports. It takes about 50 ms, in which no arrival is stamped.
    Objects that exist when a test starts are needed until its end; reference counting frees those of a stream.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 50, 1000)


def deliver_interrupts_between_callbacks() -> None:
    """Let the event loop deliver the first Ctrl-C, between two callbacks, and ignore later ones.

    Python raises KeyboardInterrupt at any instruction. Between a read and storing its bytes it would lose the bytes,
    and the stream would wait for its silence timeout. A second Ctrl-C would break off the drain, which has its own
    deadline (--drain-timeout). If another handler is installed, or SIGINT is ignored, nothing changes.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            # As gevent does with a KeyboardInterrupt in a greenlet, but without a traceback in the main greenlet.
            get_hub().handle_system_error(KeyboardInterrupt, KeyboardInterrupt())

    gevent.signal_handler(signal.SIGINT, interrupt)


def end_with_driver() -> None:
    """Ask the kernel to send SIGTERM to this process when its driver dies, even by SIGKILL.

    SIGTERM lets requests in flight end and be written, within the drain timeout.
    """
    driver = os.environ.get(DRIVER_PID, "")
    if driver.isdigit():
        _end_with(int(driver))


def end_with_master() -> None:
    """Do the same for a forked worker, which would otherwise wait a minute for a heartbeat of its dead master.

    The worker leaves the master's process group, so that a Ctrl-C or a signal to the group reaches only the master,
    which lets its workers drain.
    """
    if is_forked():
        os.setpgid(0, 0)
        _end_with(_IMPORTED_BY)


def _end_with(pid: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if not _is_alive(pid):
        # It died before the request reached the kernel.
        os.kill(os.getpid(), signal.SIGTERM)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
