"""The host meter: samples the machine's CPUs and memory twice a second while an engine runs, as JSON lines.

A row holds counters, in seconds since the first row unless stated otherwise; a value that the host does not report is
null. Only the cores that this process may use are counted.

- `t_ns`: monotonic clock. `cores`: how many cores are counted.
- `busy_s`, `idle_s`, `steal_s`: CPU time of the cores (/proc/stat); `steal_s` went to other virtual machines.
- `ours_s`: CPU time of this process and its descendants: driver, load generator, engine.
  The rest of `busy_s` belongs to other programs.
- `waited_s`: how long threads of ours were ready to run and waited for a core (/proc/PID/task/TID/schedstat).
- `memory_stalled_s`: time in which a process waited for memory (/proc/pressure/memory, "some").
- `load1`, `mhz`, `governor`: load average, mean clock and frequency governor of the cores, as of now.
- `throttled`: how often a core throttled because of heat, since boot.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

INTERVAL_S = 0.5
PROC, CORES = Path("/proc"), Path("/sys/devices/system/cpu")
_TICKS = os.sysconf("SC_CLK_TCK")
_STAT = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""The columns of a core's line in /proc/stat; guest time is part of `user`."""


@contextmanager
def host_metering(path: Path, interval_s: float = INTERVAL_S) -> Iterator[None]:
    """Sample the host into `path` during the block; does nothing without /proc/stat (not Linux)."""
    if not (PROC / "stat").exists():
        yield
        return
    stopped = threading.Event()
    thread = threading.Thread(target=_sample, args=(path, interval_s, stopped), name="host meter", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(5.0)


def _sample(path: Path, interval_s: float, stopped: threading.Event) -> None:
    meter = HostMeter()
    with path.open("a", encoding="utf-8", buffering=1) as out:
        while True:
            out.write(json.dumps(meter.row(), separators=(",", ":")) + "\n")
            if stopped.wait(interval_s):
                out.write(json.dumps(meter.row(), separators=(",", ":")) + "\n")
                return


class HostMeter:
    """Converts counters since boot, and counters of processes that start and end, to counters since the first row."""

    def __init__(self) -> None:
        self.cores = sorted(os.sched_getaffinity(0))
        self._first: dict[str, float] = {}
        self._ours = self._waited = 0.0
        self._threads: dict[tuple[int, int], tuple[float, float]] | None = None

    def row(self) -> dict[str, Any]:
        """One reading."""
        self._count_ours()
        counters = {**_core_times(self.cores), "memory_stalled_s": _memory_stalled_s()}
        since = {
            name: None if value is None else round(value - self._first.setdefault(name, value), 4)
            for name, value in counters.items()
        }
        return {
            "t_ns": time.monotonic_ns(),
            "cores": len(self.cores),
            **since,
            "ours_s": round(self._ours, 4),
            "waited_s": round(self._waited, 4),
            "load1": os.getloadavg()[0],
            "mhz": _mhz(self.cores),
            "governor": _text(CORES / f"cpu{self.cores[0]}/cpufreq/scaling_governor"),
            "throttled": _throttled(self.cores),
        }

    def _count_ours(self) -> None:
        """Add the time that our threads ran and waited since the last reading.

        The last part of an ended thread is lost: at most one interval.
        """
        now = _threads_of_ours()
        before = now if self._threads is None else self._threads
        for thread, (ran, waited) in now.items():
            ran_before, waited_before = before.get(thread, (0.0, 0.0))
            self._ours += ran - ran_before
            self._waited += waited - waited_before
        self._threads = now


def _threads_of_ours() -> dict[tuple[int, int], tuple[float, float]]:
    """(pid, tid) -> (seconds on a core, seconds ready and waiting for one), of this process and its descendants."""
    me = psutil.Process()
    times: dict[tuple[int, int], tuple[float, float]] = {}
    for process in (me, *me.children(recursive=True)):
        # A process may end at any time here.
        with suppress(OSError, ValueError):
            for task in (PROC / str(process.pid) / "task").iterdir():
                with suppress(OSError, ValueError):
                    ran_ns, waited_ns, _ = (task / "schedstat").read_text().split()
                    times[process.pid, int(task.name)] = (int(ran_ns) / 1e9, int(waited_ns) / 1e9)
    return times


def _core_times(cores: list[int]) -> dict[str, float]:
    wanted = {f"cpu{core}" for core in cores}
    times = dict.fromkeys(_STAT, 0.0)
    for line in (PROC / "stat").read_text().splitlines():
        name, *columns = line.split()
        if name in wanted:
            for column, ticks in zip(_STAT, columns, strict=False):
                times[column] += int(ticks) / _TICKS
    idle = times["idle"] + times["iowait"]
    return {"busy_s": sum(times.values()) - idle - times["steal"], "idle_s": idle, "steal_s": times["steal"]}


def _memory_stalled_s() -> float | None:
    text = _text(PROC / "pressure/memory")
    return None if text is None else int(text.partition("total=")[2].split()[0]) / 1e6


def _mhz(cores: list[int]) -> float | None:
    """The mean clock of the cores now; from /proc/cpuinfo if the frequency driver reports none."""
    texts = [_text(CORES / f"cpu{core}/cpufreq/scaling_cur_freq") for core in cores]
    clocks = [float(text) / 1000 for text in texts if text]
    if not clocks:
        lines = (_text(PROC / "cpuinfo") or "").splitlines()
        clocks = [float(line.partition(":")[2]) for line in lines if line.startswith("cpu MHz")]
    return round(sum(clocks) / len(clocks), 1) if clocks else None


def _throttled(cores: list[int]) -> int | None:
    texts = [_text(CORES / f"cpu{core}/thermal_throttle/core_throttle_count") for core in cores]
    counts = [int(text) for text in texts if text]
    return sum(counts) if counts else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
