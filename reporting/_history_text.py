"""Text from records on a terminal: nothing that a name contains may move the cursor or hide."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence


def printable(text: object) -> str:
    r"""The text with control, format (ANSI, right-to-left marks), surrogate and private characters as `\uXXXX`."""
    return "".join(_escaped(char) if unicodedata.category(char) in _HIDDEN else char for char in str(text))


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


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
