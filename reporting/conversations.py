"""Conversations and reused prefixes, in words and table rows."""

from __future__ import annotations

from collections import Counter

from records import JsonObject
from reporting.format import UNKNOWN, count, share
from reporting.view import View

REUSE_HEADER = ("cell", "engine", "turn", "requests", "prompt tokens", "reusable", "cached", "planned", "achieved")
REUSE_LEAD = (
    "Tokens of a mean prompt: reusable ones are of a prefix that this load had sent before, cached ones the engine says"
    " it found. Planned and achieved are their shares of all prompt tokens."
)


def conversation_notes(view: View) -> list[str]:
    """How the conversations of each cell and engine ended, over all rounds."""
    sums: dict[tuple[str, str], Counter[str]] = {}
    for row in view.rows("conversations"):
        found = sums.setdefault((row["cell"], row["engine"]), Counter())
        found.update({key: row[key] for key in ("conversations", "complete", "failed", "turns")})
    return [f"{cell}, {engine}: {_ended(found)}" for (cell, engine), found in sums.items()]


def _ended(found: Counter[str]) -> str:
    cut = found["conversations"] - found["complete"] - found["failed"]
    told = [f"{found['complete']:,} came to their last turn"]
    told += [f"{found['failed']:,} ended with a turn that failed"] if found["failed"] else []
    told += [f"{cut:,} were cut by the end of the load"] if cut else []
    return f"{count(found['conversations'], 'conversation')} of {count(found['turns'], 'turn')}; {', '.join(told)}"


def reuse_table(view: View) -> list[list[str]]:
    """A line of REUSE_HEADER for each cell, engine and turn; the line of all turns comes first."""
    return [_line(row) for row in view.rows("reuse")]


def _line(row: JsonObject) -> list[str]:
    n = row["requests"]
    means = [_mean(row[name], n) for name in ("prompt_tokens", "reusable_tokens", "cached_tokens")]
    shares = [UNKNOWN if row[name] is None else share(row[name]) for name in ("planned", "achieved")]
    turn = "all" if row["turn"] is None else str(row["turn"])
    return [str(row["cell"]), str(row["engine"]), turn, f"{n:,}", *means, *shares]


def _mean(tokens: float | None, n: int) -> str:
    return UNKNOWN if tokens is None else f"{tokens / n:,.0f}"
