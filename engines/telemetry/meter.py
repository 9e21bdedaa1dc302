"""The GPU meter: a separate process that reads cards ten times a second, so that it costs the load nothing.

    python -m engines.telemetry.meter FILE HZ CARDS

CARDS is a JSON list of the cards' numbers, or null for all. It appends one JSON line per reading,
{"t_ns": monotonic, "gpus": [...]} (see `engines.telemetry.gpu.sample`), until its standard input closes: it ends with
its parent process.
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

from engines.telemetry.gpu import handles, nvml, sample

HZ = 10.0
ROOT = Path(__file__).resolve().parents[2]
END_S = 5.0


@contextmanager
def metering(path: Path | None, gpus: list[int] | None = None, hz: float = HZ) -> Iterator[bool]:
    """Measure these cards (all by default) into `path` during the block; yields whether anything is measured.

    Nothing is measured without a path, without NVML, or if none of the cards exists.
    """
    if path is None or not _cards(gpus):
        yield False
        return
    with subprocess.Popen(
        [sys.executable, "-m", "engines.telemetry.meter", str(path.absolute()), str(hz), json.dumps(gpus)],
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


def measure(path: Path, hz: float, gpus: list[int] | None) -> int:
    """Write readings until standard input closes; returns the exit code (1 where there is nothing to read)."""
    with nvml() as library:
        cards = handles(library, gpus) if library is not None else {}
        if not cards:
            return 1
        with path.open("a", encoding="utf-8", buffering=1) as out:
            due = time.monotonic()
            while True:
                row = {"t_ns": time.monotonic_ns(), "gpus": [sample(library, i, card) for i, card in cards.items()]}
                out.write(json.dumps(row, separators=(",", ":")) + "\n")
                # Missed readings are skipped, because a burst of readings would be useless.
                due = max(due + 1 / hz, time.monotonic())
                if select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
                    return 0


def _cards(gpus: list[int] | None) -> bool:
    with nvml() as library:
        return library is not None and bool(handles(library, gpus))


if __name__ == "__main__":
    sys.exit(measure(Path(sys.argv[1]), float(sys.argv[2]), json.loads(sys.argv[3])))
