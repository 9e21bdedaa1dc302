"""When a test is over: the clock of a timed window, and the stop once the last record is on disk."""

from __future__ import annotations

import time
from typing import Any

import gevent
from locust.runners import WorkerRunner

from load.distributed import worker
from load.schedule.admission import Admission
from load.session import Session


def end_when_over(environment: Any, made: Session) -> None:
    """Once the last measured request is on disk: stop, and in a headless run quit."""
    if made.options.duration and not made.admission.sweep:
        gevent.spawn(_close_on_time, made.admission, made.options.duration)
    made.over.wait()
    if isinstance(environment.runner, WorkerRunner):
        worker.report_over(environment, made)
    elif getattr(environment, "enginebench", None) is made and not made.stopping:
        # From a greenlet of its own: stop() kills the users, and this one must not be among the waiting.
        if environment.web_ui is None:
            environment.runner.quit()
        else:
            environment.runner.stop()


def _close_on_time(admission: Admission, duration_s: float) -> None:
    """End a timed window on the monotonic clock, also where no user asks for a ticket just then.

    Locust's own -t runs on the cached clock of the event loop and can end early.
    """
    while admission.measure_start_ns is None and not admission.closed:
        gevent.sleep(0.01)
    while not admission.closed:
        end_ns = (admission.measure_start_ns or 0) + duration_s * 1e9
        left = (end_ns - time.monotonic_ns()) / 1e9
        if left <= 0:
            admission.close()
            return
        gevent.sleep(min(left, 0.2))
