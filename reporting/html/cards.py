"""What the HTML report shows first: one card per cell and per graded workload."""

from __future__ import annotations

from dataclasses import dataclass

from records import JsonObject
from reporting.escape import one_line
from reporting.format import DAGGER, blind, interval, points, quantity, ratio, share, tone, word
from reporting.view import View, cell_of


@dataclass(frozen=True)
class Card:
    """One figure that is seen first: `value` in large, what it is above it, its proof below."""

    label: str
    value: str
    word: str
    tone: str
    proof: str
    interval: str


def cards(view: View) -> list[tuple[str, list[Card]]]:
    """Per candidate: the throughput ratio of every cell that is not graded, and the answers of every workload."""
    graded = {cell_of(row) for row in view.rows("quality")}
    rates = [r for r in view.rows("performance") if r["metric"] == "output_tok_s" and cell_of(r) not in graded]
    found = []
    for candidate in view.candidates:
        made = [_speed(view, row, candidate) for row in rates]
        made += [_answers(view, row, candidate) for row in view.rows("quality")]
        found.append((candidate, [card for card in made if card is not None]))
    return found


def _speed(view: View, row: JsonObject, candidate: str) -> Card | None:
    told = (row.get("speed_ratio") or {}).get(candidate)
    if not told or told.get("value") is None:
        return None
    ours, theirs = (quantity((row["engines"].get(e) or {}).get("value"), "tok/s") for e in (candidate, view.baseline))
    ci = told.get("ci")
    return Card(
        label=one_line(cell_of(row)),
        value=ratio(told["value"], ci),
        word=(word(told.get("verdict")) or "no verdict") + (DAGGER if blind(told) else ""),
        tone=tone(told),
        proof=f"{ours} against {theirs}",
        interval=f"95% {interval(ci)}" if ci else "",
    )


def _answers(view: View, row: JsonObject, candidate: str) -> Card | None:
    paired = (row.get("paired") or {}).get(candidate)
    if not paired:
        return None
    ours, theirs = (share((row["engines"].get(e) or {}).get("accuracy")) for e in (candidate, view.baseline))
    _, _, ends = points(paired.get("difference"), paired.get("ci")).partition(" points ")
    return Card(
        label=f"{one_line(row['workload'])}, right answers",
        value=points(paired.get("difference")).replace(" points", " pt"),
        word=word(paired.get("verdict")) or "no verdict",
        tone=tone(paired),
        proof=f"{ours} against {theirs}, n\u00a0=\u00a0{row['n']:,}",
        interval=f"95% {ends}" if ends else "",
    )
