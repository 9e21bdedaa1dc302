"""The GPU meter: a process of its own that reads every card ten times a second, so that it costs the load nothing.

    python -m engines._meter FILE [HZ]

It appends one JSON line a reading, {"t_ns": monotonic, "gpus": [...]} (see `engines._gpu.sample`), until its standard
input closes: it ends with whoever started it, however that one ends.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engines._gpu import handles, nvml, sample

HZ = 10.0
ROOT = Path(__file__).resolve().parent.parent
END_S = 5.0


@contextmanager
def metering(path: Path | None, hz: float = HZ) -> Iterator[bool]:
    """Measure into `path` while inside; yields whether anything is measured (no path or no NVML: it is not)."""
    if path is None or not _cards():
        yield False
        return
    with subprocess.Popen(
        [sys.executable, "-m", "engines._meter", str(path.absolute()), str(hz)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        start_new_session=True,
    ) as meter:
        try:
            yield True
        finally:
            assert meter.stdin is not None
            meter.stdin.close()
            try:
                meter.wait(END_S)
            except subprocess.TimeoutExpired:
                # A driver call that hangs must not hang the run.
                meter.kill()


def measure(path: Path, hz: float) -> int:
    """Write readings until standard input closes; returns the exit code (1 where there is nothing to read)."""
    with nvml() as library:
        cards = handles(library) if library is not None else []
        if not cards:
            return 1
        with path.open("a", encoding="utf-8", buffering=1) as out:
            due = time.monotonic()
            while True:
                row = {"t_ns": time.monotonic_ns(), "gpus": [sample(library, i, card) for i, card in enumerate(cards)]}
                out.write(json.dumps(row, separators=(",", ":")) + "\n")
                # Missed readings are skipped, not caught up: a burst would tell nothing.
                due = max(due + 1 / hz, time.monotonic())
                if select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
                    return 0


def _cards() -> bool:
    with nvml() as library:
        return library is not None and bool(handles(library))


if __name__ == "__main__":
    sys.exit(measure(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else HZ))
