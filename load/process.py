"""Set-up of the load process: garbage collector, Ctrl-C, and its end with the process that started it."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys

import gevent
from gevent.hub import get_hub

DRIVER_PID = "ENGINEBENCH_DRIVER_PID"
"""The environment variable that names the driver's process id to a load process that the driver starts."""
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

    A full collection walks everything that Locust has imported. It takes some 50 ms, and no arrival is stamped
    meanwhile. Objects that exist when a test starts live until its end; what a stream leaves behind is freed by
    reference counting.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 50, 1000)


def deliver_interrupts_between_callbacks() -> None:
    """Let the event loop deliver the first Ctrl-C, between two callbacks, and ignore later ones.

    Python raises KeyboardInterrupt at any instruction. Between a read and the storing of its bytes it would lose them,
    and the stream would wait for its silence timeout. A second Ctrl-C would break off the drain, which has its own
    deadline (--drain-timeout). Where another handler is installed, or SIGINT is ignored, that stays.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            # gevent does the same with one that is raised in a greenlet; here the main greenlet gets no traceback.
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
    """Ask the same for a forked worker, which would else wait a minute for a heartbeat of its dead master.

    The worker leaves the master's process group: a Ctrl-C at the terminal, or a signal to the group, reaches the master
    alone, which lets its workers drain.
    """
    if is_forked():
        os.setpgid(0, 0)
        _end_with(_IMPORTED_BY)


def _end_with(pid: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if not _is_alive(pid):
        # It died before the kernel knew of our request.
        os.kill(os.getpid(), signal.SIGTERM)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
