"""Shows how busy the machine was for each engine: the host meter's figures of each cell, averaged over the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from records import JsonObject
from reporting.format import UNKNOWN
from reporting.view import View

MACHINE_COLUMNS = (
    "others' CPU", "we waited", "steal", "slowed down", "load", "clock", "memory stalled", "throttled",
)  # fmt: skip
MACHINE_LEAD = (
    "Other work on the machine, averaged over the rounds: the share of CPU time that other programs used; how long"
    " threads of driver, load generator and engine waited for a core, per second on one; the share that other virtual"
    " machines took; and the factor by which all of this slowed our CPU work down."
)


@dataclass(frozen=True)
class MachineFacts:
    """The machine's figures for one engine in one cell; `values` are in the order of MACHINE_COLUMNS."""

    cell: str
    engine: str
    values: list[str]


def machine_facts(view: View) -> list[MachineFacts]:
    """A row for each cell and engine; empty where the host was not sampled."""
    places: dict[tuple[str, str], list[JsonObject]] = {}
    for row in view.rows("host"):
        places.setdefault((str(row["cell"]), str(row["engine"])), []).append(row)
    order = [(cell, engine) for cell in dict.fromkeys(cell for cell, _ in places) for engine in view.engines]
    return [MachineFacts(*place, _values(places[place])) for place in order if place in places]


def _values(rounds: Sequence[JsonObject]) -> list[str]:
    slowdowns = [float(row["slowdown"]) for row in rounds]
    governors = dict.fromkeys(row["governor"] for row in rounds if row.get("governor"))
    mhz = _mean(rounds, "mhz")
    throttled = [row["throttled"] for row in rounds if row.get("throttled") is not None]
    load = _mean(rounds, "load1")
    return [
        _share(_mean(rounds, "others")),
        f"{_mean(rounds, 'waited') or 0:.2f} s/s",
        _share(_mean(rounds, "steal")),
        f"{sum(slowdowns) / len(slowdowns):.2f}x (worst {max(slowdowns):.2f}x)",
        UNKNOWN if load is None else f"{load:.1f}",
        UNKNOWN if mhz is None else ", ".join([f"{mhz:,.0f} MHz", *governors]),
        _share(_mean(rounds, "memory_stalled")),
        f"{sum(throttled)} times" if throttled else UNKNOWN,
    ]


def _mean(rounds: Sequence[JsonObject], name: str) -> float | None:
    known = [float(row[name]) for row in rounds if row.get(name) is not None]
    return sum(known) / len(known) if known else None


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else f"{100 * value:.1f}%"
