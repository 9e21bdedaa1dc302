"""Makes the first cards of the HTML report: one per cell, and one per graded workload."""

from __future__ import annotations

from dataclasses import dataclass

from records import JsonObject
from reporting.escape import one_line
from reporting.format import (
    DAGGER,
    blind,
    interval,
    metric_name,
    points,
    quantity,
    ratio,
    share,
    shown_interval,
    tone,
    word,
)
from reporting.view import View, cell_of


@dataclass(frozen=True)
class CardFigure:
    """One figure of a card: the ratio or difference, its verdict (may be empty), and the two values behind it."""

    metric: str
    value: str
    word: str
    tone: str
    interval: str
    proof: str


@dataclass(frozen=True)
class Card:
    """A cell or a graded workload; its first figure is shown large."""

    label: str
    figures: list[CardFigure]


def cards(view: View) -> list[tuple[str, list[Card]]]:
    """Per candidate: the deciding figures of every cell, and the answers of every graded workload."""
    by_cell: dict[str, list[JsonObject]] = {}
    for row in view.deciding_rows:
        by_cell.setdefault(cell_of(row), []).append(row)
    return [
        (
            candidate,
            [
                *(
                    Card(one_line(cell), figures)
                    for cell, rows in by_cell.items()
                    if (figures := [f for row in rows if (f := _speed(view, row, candidate))])
                ),
                *(
                    Card(f"{one_line(row['workload'])}, right answers", [figure])
                    for row in view.rows("quality")
                    if (figure := _answers(view, row, candidate))
                ),
            ],
        )
        for candidate in view.candidates
    ]


def _speed(view: View, row: JsonObject, candidate: str) -> CardFigure | None:
    speed_ratio = (row.get("speed_ratio") or {}).get(candidate)
    if not speed_ratio or speed_ratio.get("value") is None:
        return None
    ours, theirs = (
        quantity((row["engines"].get(e) or {}).get("value"), row.get("unit")) for e in (candidate, view.baseline)
    )
    ci = shown_interval(speed_ratio)
    return CardFigure(
        metric=metric_name(row["metric"]),
        value=ratio(speed_ratio["value"], ci),
        word=word(speed_ratio.get("verdict")),
        tone=tone(speed_ratio),
        interval=interval(ci) + (DAGGER if blind(speed_ratio) else ""),
        proof=f"{ours} against {theirs}",
    )


def _answers(view: View, row: JsonObject, candidate: str) -> CardFigure | None:
    paired = (row.get("paired") or {}).get(candidate)
    if not paired:
        return None
    ours, theirs = (share((row["engines"].get(e) or {}).get("accuracy")) for e in (candidate, view.baseline))
    _, _, ends = points(paired.get("difference"), shown_interval(paired)).partition(" points ")
    return CardFigure(
        metric="difference in points",
        value=points(paired.get("difference")).removesuffix(" points"),
        word=word(paired.get("verdict")),
        tone=tone(paired),
        interval=ends,
        proof=f"{ours} against {theirs}, {row['n']:,} problems",
    )
