"""Failed requests in words, and counted by kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from records import JsonObject


def error_kind(row: JsonObject) -> str:
    """The kind of a failed request's error."""
    return str((row["error"] or {}).get("kind") or "error")


def error_words(row: JsonObject) -> str:
    """Kind and message of a failed request's error."""
    message = (row["error"] or {}).get("message")
    return f"{error_kind(row)}: {message}" if message else error_kind(row)


@dataclass(frozen=True)
class Failure:
    """Requests of one engine and cell that failed alike; `message` is the first one's."""

    engine: str
    cell: str
    kind: str
    requests: int
    message: str


def failures(rows: list[JsonObject]) -> list[Failure]:
    """Failed requests counted by engine, cell and kind, the most frequent first."""
    first: dict[tuple[str, str, str], JsonObject] = {}
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        key = (str(row["engine"]), str(row["cell"]), error_kind(row))
        first.setdefault(key, row)
        counts[key] += 1
    return [
        Failure(*key, number, error_words(first[key]).removeprefix(key[2]).removeprefix(": "))
        for key, number in counts.most_common()
    ]
