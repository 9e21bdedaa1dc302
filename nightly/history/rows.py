"""The rows of the history, as an import writes them and as they are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from records import JsonObject

Status = Literal["running", "complete", "partial", "void"]

WHOLE_RUN = 0
"""The `round` of a figure over all rounds of a run; real rounds count from 1."""


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure of one engine, of a round or (round 0) of the whole run. `n` counts requests."""

    engine: str
    cell: str
    metric: str
    round: int
    value: float
    n: int | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class QualityRow:
    """Answers of one engine in one cell.

    `outcomes` maps prompt_id to the share of its samples that was right, where the comparison lists every answer.
    """

    engine: str
    cell: str
    n: int | None
    correct: int | None
    accuracy: float | None
    ci_low: float | None
    ci_high: float | None
    truncated: int | None
    no_answer: int | None
    errors: int | None
    outcomes: dict[str, float] | None = None


@dataclass(frozen=True, slots=True)
class EngineRow:
    """One engine of a run: its kind, build and set-up."""

    engine: str
    kind: str | None
    build: str | None
    setup: JsonObject


@dataclass(slots=True)
class ImportedRun:
    """All data of a run that the history stores."""

    run_id: str
    created_utc: str
    profile: str
    profile_sha256: str | None
    fingerprint: JsonObject
    status: Status
    engines: list[EngineRow]
    cells: dict[str, str]
    figures: list[FigureRow]
    quality: list[QualityRow]
    digest: str
    kind: str = "run"
    confirms: str | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run. `kind` is run, nightly or confirmation; `confirms` names the run that a confirmation repeats."""

    run_id: str
    created_utc: str
    profile: str
    profile_sha256: str | None
    fingerprint: JsonObject
    status: str
    kind: str
    confirms: str | None
    pinned_utc: str | None
    exit_code: int | None
    note: str | None
    place_utc: str | None = None
    requests_failed: int = 0

    @property
    def place(self) -> tuple[str, str]:
        """The sort key of runs; `place_utc` is set where the clock was set back between two nights."""
        return self.place_utc or self.created_utc, self.run_id


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """One engine of one run; `setup` must be equal in two runs that are compared."""

    engine: str
    kind: str | None
    build: str | None
    setup: JsonObject


@dataclass(frozen=True, slots=True)
class GateRow:
    """One decision of a night.

    `ratio` is the speed ratio of tonight against the baseline (below 1 is slower); for answers it is the difference in
    accuracy (below 0 is worse). `since` is the first run on the new level where the verdict is regression or improved.
    """

    engine: str
    cell: str
    metric: str
    baseline: str | None
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    limit_ratio: float | None
    verdict: str
    evidence: str
    since: str | None = None
