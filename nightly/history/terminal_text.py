"""Text from records on a terminal: nothing that a name contains may move the cursor or hide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reporting.escape import one_line


def printable(text: object) -> str:
    """The text in one line, whole, with whatever could move a cursor or hide made visible."""
    return one_line(text, None)


def columns(header: Sequence[str], rows: Iterable[Sequence[object]], *, limit: int = 40) -> list[str]:
    """Rows as lines of aligned columns; None is shown as a dash, a long value is cut with an ellipsis."""
    table = [list(header)] + [
        ["-" if value is None else _cut(printable(value), limit) for value in row] for row in rows
    ]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]
    return ["  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def figure(value: float | None) -> str:
    """Four significant digits, without an exponent for anything a benchmark gives."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.4g}"
