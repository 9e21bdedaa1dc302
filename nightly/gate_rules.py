"""The rules of a night's gate: which figures it judges, and the baseline. Profiles import it, so it loads fast."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scoring.metrics import METRICS

Mode = Literal["series", "pinned", "last-good", "window", "run"]
DEFAULT_BASELINE = "series"


@dataclass(frozen=True, slots=True)
class Choice:
    """How the baseline is chosen; `nights` is the size of a window."""

    mode: Mode
    nights: int = 1

    def __str__(self) -> str:
        return f"window:{self.nights}" if self.mode == "window" else self.mode


@dataclass(frozen=True, slots=True)
class GateRules:
    """The parts of a profile that a night needs.

    Tonight measures `engines` and `cells`. `margins` has the parity margin of each graded cell, in points of accuracy.
    `baseline_engine` is the engine with which the others are compared under `--baseline run`.
    """

    profile: str
    baseline_engine: str
    engines: tuple[str, ...]
    cells: tuple[str, ...]
    metrics: tuple[str, ...]
    margins: Mapping[str, float]
    choice: Choice
    threshold: float

    def only(self, engines: Sequence[str], cells: Sequence[str]) -> GateRules:
        """The same rules restricted to some engines and cells, in the profile's order."""
        return replace(
            self,
            engines=tuple(name for name in self.engines if name in engines),
            cells=tuple(name for name in self.cells if name in cells),
        )


def parse_choice(text: str) -> Choice:
    """Read `series`, `pinned`, `last-good`, `window:N` or `run`.

    Raises:
        ValueError: the text is none of these.
    """
    match = re.fullmatch(r"window:(\d{1,4})", text)
    if match and int(match[1]) >= 2:
        return Choice("window", int(match[1]))
    for mode in ("series", "pinned", "last-good", "run"):
        if text == mode:
            return Choice(mode)
    raise ValueError(f"{text!r} was given; expected series, pinned, last-good, window:N (N of 2 or more) or run")


def check_metrics(names: Sequence[str]) -> None:
    """Check that all names are metrics that a run can have.

    Raises:
        ValueError: a name is not a metric.
    """
    for name in names:
        if name not in METRICS:
            close = difflib.get_close_matches(name, METRICS, n=1)
            hint = f' (did you mean "{close[0]}"?)' if close else f"; known are {', '.join(METRICS)}"
            raise ValueError(f"{name!r} is no metric{hint}")
