"""The host meter counts what our own processes ran and waited apart from what others did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engines.telemetry.host import HostMeter, host_metering
from scoring.speed.host import HostFigures, host_figures

SPIN = "import time\nend = time.monotonic() + 0.5\nwhile time.monotonic() < end: pass"

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def test_a_child_that_spins_is_ours_and_counted_as_busy(tmp_path: Path) -> None:
    path = tmp_path / "host.jsonl"
    start = time.monotonic_ns()
    with host_metering(path, interval_s=0.05):
        subprocess.run([sys.executable, "-c", SPIN], check=True)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    first, last = rows[0], rows[-1]
    # It was ready to run for half a second, and either ran or waited; its last interval may be lost.
    assert last["ours_s"] + last["waited_s"] > 0.3
    assert last["busy_s"] >= 0.5 * last["ours_s"] - 0.1
    assert (first["busy_s"], first["ours_s"], first["waited_s"]) == (0, 0, 0)
    assert start <= first["t_ns"] <= last["t_ns"]


def test_every_core_that_this_process_may_use_is_counted() -> None:
    assert HostMeter().row()["cores"] == len(os.sched_getaffinity(0))


def rows(**per_second: float) -> list[dict[str, object]]:
    steady: dict[str, object] = {
        "cores": 4,
        "load1": 2.0,
        "mhz": None,
        "governor": None,
        "throttled": None,
        "memory_stalled_s": None,
    }
    return [{"t_ns": s * 10**9} | {name: rate * s for name, rate in per_second.items()} | steady for s in range(11)]


def test_figures_are_differences_between_the_samples_around_a_cell() -> None:
    samples = rows(busy_s=3.0, idle_s=0.8, steal_s=0.2, ours_s=1.0, waited_s=0.5)
    figures = host_figures(samples, 2_500_000_000, 7_200_000_000)
    assert figures is not None
    assert (figures.others, figures.steal, figures.waited) == pytest.approx((0.5, 0.05, 0.5))
    # Waiting stretches a second on the CPU to 1.5; the hypervisor took a twentieth of the rest.
    assert figures.slowdown == pytest.approx(1.5 / 0.95)
    assert (figures.mhz, figures.throttled, figures.memory_stalled) == (None, None, None)


def test_threads_that_wait_for_each_other_on_an_empty_machine_are_the_engines_own_doing() -> None:
    figures = host_figures(rows(busy_s=3.9, idle_s=0.1, steal_s=0.0, ours_s=3.85, waited_s=8.0), 10**9, 5 * 10**9)
    assert isinstance(figures, HostFigures)
    assert figures.slowdown == 1.0


@pytest.mark.parametrize("span", [(None, None), (-1, 5 * 10**9), (10**9, 11 * 10**9)])
def test_a_cell_that_was_not_sampled_throughout_has_no_figures(span: tuple[int | None, int | None]) -> None:
    assert host_figures(rows(busy_s=1, idle_s=3, steal_s=0, ours_s=1, waited_s=0), *span) is None
