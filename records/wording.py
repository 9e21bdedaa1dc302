"""How a number is told with its noun. The standard library only: checks, reports and commands say it alike."""

from __future__ import annotations


def count(number: int, one: str, many: str | None = None) -> str:
    """1 check, 2 checks; `many` where an s is not enough."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
