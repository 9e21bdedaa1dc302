"""What a gate may be asked: which figures, and against what. One rule for the profile and for the command line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scoring.metrics import METRICS

Mode = Literal["pinned", "last-good", "window", "run"]


@dataclass(frozen=True, slots=True)
class Choice:
    """How the baseline is chosen; `nights` is the size of a window."""

    mode: Mode
    nights: int = 1

    def __str__(self) -> str:
        return f"window:{self.nights}" if self.mode == "window" else self.mode


def parse_choice(text: str) -> Choice:
    """Read `pinned`, `last-good`, `window:N` or `run`.

    Raises:
        ValueError: another word.
    """
    match = re.fullmatch(r"window:(\d{1,4})", text)
    if match and int(match[1]) >= 2:
        return Choice("window", int(match[1]))
    for mode in ("pinned", "last-good", "run"):
        if text == mode:
            return Choice(mode)
    raise ValueError(f"{text!r} was given; expected pinned, last-good, window:N (N of 2 or more) or run")


def check_metrics(names: Sequence[str]) -> None:
    """Look whether all are figures that a run can have.

    Raises:
        ValueError: one is none.
    """
    for name in names:
        if name not in METRICS:
            close = difflib.get_close_matches(name, METRICS, n=1)
            meant = f' (did you mean "{close[0]}"?)' if close else f"; known are {', '.join(METRICS)}"
            raise ValueError(f"{name!r} is no metric{meant}")
