"""Figures of the host during a cell (other load, waiting, clock), from the host meter's samples.

`engines/telemetry/host.py` writes the samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from records import JsonObject

OTHERS_FROM = 0.05
"""If other programs use less of the CPU than this share, waiting threads wait for each other: slowdown is then 1."""


@dataclass(frozen=True, slots=True)
class HostFigures:
    """The machine during one cell of one round. Shares are of 1; None is unknown."""

    others: float
    """Share of the cores' time that other programs used."""
    steal: float
    """Share of the cores' time that the hypervisor gave to other virtual machines."""
    waited: float
    """How long threads of driver, load generator and engine waited for a core, per second that they ran on one."""
    memory_stalled: float | None
    """Share of time in which a process waited for memory."""
    load1: float | None
    mhz: float | None
    governor: str | None
    throttled: int | None
    """How often a core throttled because of heat."""

    @property
    def slowdown(self) -> float:
        """The factor by which other programs slowed our CPU work; 1 on an idle machine (docs/methodology.md)."""
        crowded = self.others + self.steal >= OTHERS_FROM
        return (1 + self.waited if crowded else 1.0) / max(1 - self.steal, 0.01)

    def to_json(self) -> JsonObject:
        return asdict(self) | {"slowdown": self.slowdown}


def host_figures(rows: Sequence[JsonObject], start_ns: int | None, end_ns: int | None) -> HostFigures | None:
    """The figures from the last sample before `start_ns` to the first sample after `end_ns`.

    None where the samples do not cover both moments, or the host reports no CPU times.
    """
    if start_ns is None or end_ns is None:
        return None
    known = [row for row in rows if isinstance(row.get("t_ns"), int)]
    before = [i for i, row in enumerate(known) if row["t_ns"] <= start_ns]
    after = [i for i, row in enumerate(known) if row["t_ns"] >= end_ns]
    if not before or not after or before[-1] >= after[0]:
        return None
    inside = known[before[-1] : after[0] + 1]
    first, last = inside[0], inside[-1]
    capacity_s = (last["t_ns"] - first["t_ns"]) / 1e9 * last["cores"]
    busy, steal, ours = (last[name] - first[name] for name in ("busy_s", "steal_s", "ours_s"))
    if capacity_s <= 0 or busy <= 0:
        return None
    seconds = capacity_s / last["cores"]
    return HostFigures(
        others=min(max(busy - ours, 0.0) / capacity_s, 1.0),
        steal=min(steal / capacity_s, 1.0),
        waited=max(last["waited_s"] - first["waited_s"], 0.0) / max(ours, 1e-3),
        memory_stalled=_difference(first, last, "memory_stalled_s", seconds),
        load1=_mean(inside, "load1"),
        mhz=_mean(inside, "mhz"),
        governor=last.get("governor"),
        throttled=None if last.get("throttled") is None else last["throttled"] - first["throttled"],
    )


def _difference(first: JsonObject, last: JsonObject, name: str, seconds: float) -> float | None:
    if first.get(name) is None or last.get(name) is None:
        return None
    return float((last[name] - first[name]) / seconds)


def _mean(rows: Sequence[JsonObject], name: str) -> float | None:
    known = [float(row[name]) for row in rows if row.get(name) is not None]
    return sum(known) / len(known) if known else None
