"""One table of a Markdown report, cut to a number of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], body: Sequence[Sequence[str]], rows: int, numeric: int | None = None) -> str:
    """A Markdown table of at most `rows` rows; columns from `numeric` on are aligned to the right."""
    aligned = ["---:" if numeric is not None and i >= numeric else "---" for i in range(len(header))]
    lines = [_row(header), _row(aligned), *(_row(row) for row in body[:rows])]
    if len(body) > rows:
        lines.append(f"\n{len(body) - rows:,} more rows are in the HTML report and in the JSON.")
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
