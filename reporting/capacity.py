"""Describes capacity searches as text: their objectives, each result, and the comparison of engines."""

from __future__ import annotations

from dataclasses import dataclass

from records import JsonObject
from reporting.format import UNKNOWN, count, metric_name, quantity, ratio_with_interval, share
from reporting.view import View, cell_of


@dataclass(frozen=True)
class CapacityFacts:
    """The result of one capacity search, as texts."""

    cell: str
    engine: str
    round: str
    result: str
    judged: str
    levels: str


def capacity_facts(view: View) -> list[CapacityFacts]:
    """One row for each engine and round of a cell that searched a capacity."""
    return [
        CapacityFacts(
            cell=str(row["cell"]),
            engine=str(row["engine"]),
            round=str(row["round"]),
            result=_capacity(row),
            judged=f"{row['requests']:,} of {row['sent']:,}",
            levels=", ".join(f"{v['level']:g}: {_verdict(v)}" for v in row["levels"]),
        )
        for row in view.rows("capacity")
    ]


def capacity_lead(view: View) -> str:
    """A sentence on the objectives of a report's capacity searches; empty without one."""
    row = next(iter(view.rows("capacity")), None)
    if row is None:
        return ""
    limits = ", ".join(f"{metric_name(f'{name}_').strip()} {limit:g} ms" for name, limit in row["objectives"].items())
    return (
        f"The most load at which {100 * row['pass_share']:g}% of requests meet every objective ({limits}), by search. A"
        f" level passes or fails once the {100 * row['confidence']:g}% interval of its share is clear of that."
    )


def _capacity(row: JsonObject) -> str:
    passes, fails = row.get("passes"), row.get("fails")
    if not row.get("complete"):
        known = [f"{_level(row, passes)} pass"] if passes is not None else []
        known += [f"{_level(row, fails)} fail"] if fails is not None else []
        return f"unknown: {row.get('reason')}" + (f"; {', '.join(known)}" if known else "")
    if row.get("below_start"):
        return f"below {_level(row, row['start'])}"
    if row.get("at_least_end"):
        return f"at least {_level(row, row['end'])}"
    between = f"; undecided: {', '.join(f'{level:g}' for level in row['undecided'])}" if row["undecided"] else ""
    if passes is None or fails is None:
        return f"{'above ' + _level(row, passes) if passes is not None else 'unknown'}{between}"
    return f"{_level(row, passes)} ({fails:g} fail){between}"


def _level(row: JsonObject, level: float) -> str:
    return f"{level:g} requests/s" if row["by"] == "rate" else count(int(level), "user")


def _verdict(visit: JsonObject) -> str:
    met = UNKNOWN if visit["share"] is None else share(visit["share"])
    return f"{visit['verdict'] or 'not judged'} ({met} of {visit['requests']:,})"


def capacity_sentences(view: View) -> list[str]:
    """A sentence per cell that searched a capacity: each engine's capacity, and each candidate's ratio."""
    return [_sentence(view, row) for row in view.capacity_rows]


def _sentence(view: View, row: JsonObject) -> str:
    each = ", ".join(f"{engine} {_carries(view, row, engine)}" for engine in view.engines if engine in row["engines"])
    ratios = [
        f"{candidate} against {view.baseline} {ratio_with_interval(ratio)}"
        for candidate in view.candidates
        if (ratio := row["speed_ratio"].get(candidate)) and ratio.get("value") is not None
    ]
    return f"Capacity in {cell_of(row)}: {each}" + (f"; {', '.join(ratios)}." if ratios else ".")


def _carries(view: View, row: JsonObject, engine: str) -> str:
    """An engine's capacity; without a figure, the results of its searches."""
    value = row["engines"][engine].get("value")
    if value is not None:
        return quantity(value, row["unit"])
    own = [search for search in view.rows("capacity") if (search["cell"], search["engine"]) == (row["cell"], engine)]
    return " or ".join(dict.fromkeys(_capacity(search) for search in own)) or UNKNOWN
