"""What the HTML report shows first: one card per cell and per graded workload."""

from __future__ import annotations

from dataclasses import dataclass

from reporting._escape import one_line
from reporting._format import blind, interval, points, quantity, ratio, share, tone, word
from reporting._view import View, cell_of


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
    """Per candidate: the throughput ratio of every cell and the answers of every workload."""
    found = []
    graded = {cell_of(row) for row in view.rows("quality") if row.get("scenario")}
    for candidate in view.candidates:
        made = []
        for row in view.rows("performance"):
            told = (row.get("speed_ratio") or {}).get(candidate)
            if row["metric"] != "output_tok_s" or not told or told.get("value") is None or cell_of(row) in graded:
                continue
            proof = f"{quantity((row['engines'].get(candidate) or {}).get('value'), 'tok/s')} against "
            proof += quantity((row["engines"].get(view.baseline) or {}).get("value"), "tok/s")
            shown = (word(told.get("verdict")) or "no verdict") + ("†" if blind(told) else "")
            ci = told.get("ci")
            made.append(
                Card(
                    one_line(cell_of(row)),
                    ratio(told["value"], ci),
                    shown,
                    tone(told),
                    proof,
                    f"95% {interval(ci)}" if ci else "",
                )
            )
        for row in view.rows("quality"):
            paired = (row.get("paired") or {}).get(candidate)
            if not paired:
                continue
            ours, theirs = row["engines"].get(candidate) or {}, row["engines"].get(view.baseline) or {}
            proof = f"{share(ours.get('accuracy'))} against {share(theirs.get('accuracy'))}, n\u00a0=\u00a0{row['n']:,}"
            _, _, ends = points(paired.get("difference"), paired.get("ci")).partition(" points ")
            made.append(
                Card(
                    f"{one_line(row['workload'])}, right answers",
                    points(paired.get("difference")).replace(" points", " pt"),
                    word(paired.get("verdict")) or "no verdict", tone(paired), proof, f"95% {ends}" if ends else "",
                )
            )  # fmt: skip
        found.append((candidate, made))
    return found
