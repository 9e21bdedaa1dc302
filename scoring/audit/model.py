"""What an audit check is: its status, the facts that it reads, and the decorators that register it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from records import JsonObject
from scoring.captures import Capture
from scoring.runs import Round, Run
from scoring.speed.latency import CellFigures


class Status(StrEnum):
    """What a check found."""

    PASS = "pass"  # noqa: S105 (no password)
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"


_ORDER = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.PASS, Status.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True)
class Finding:
    """A status with its evidence: one sentence with the figures that it rests on."""

    status: Status
    evidence: str


def passed(evidence: str) -> Finding:
    """All is well."""
    return Finding(Status.PASS, evidence)


def warned(evidence: str) -> Finding:
    """Worth knowing, not enough to void."""
    return Finding(Status.WARN, evidence)


def failed(evidence: str) -> Finding:
    """The comparison is void."""
    return Finding(Status.FAIL, evidence)


def unknown(evidence: str) -> Finding:
    """The engine or the run can't tell."""
    return Finding(Status.UNKNOWN, evidence)


def not_applicable(evidence: str) -> Finding:
    """Nothing to check here."""
    return Finding(Status.NOT_APPLICABLE, evidence)


def worst(findings: Iterable[Finding], rounds: Iterable[int] | None = None) -> Finding:
    """The worst of several findings; with `rounds`, its evidence names the round it is from where there are several."""
    found = list(findings)
    if not found:
        return unknown("nothing was captured")
    chosen = min(range(len(found)), key=lambda i: _ORDER.index(found[i].status))
    numbers = list(rounds) if rounds is not None else []
    if len(numbers) > 1 and found[chosen].status is not Status.PASS:
        return Finding(found[chosen].status, f"round {numbers[chosen]}: {found[chosen].evidence}")
    return found[chosen]


@dataclass(slots=True)
class RoundFacts:
    """One cell of one round, without its chunks."""

    capture: Capture
    figures: CellFigures

    @property
    def number(self) -> int:
        return self.capture.round


@dataclass(slots=True)
class CellFacts:
    """All that the checks of one engine in one cell may look at."""

    run: Run
    engine: str
    cell: str
    section: JsonObject
    """The profile's section of the cell; empty where there is none."""
    rounds: list[RoundFacts]
    baseline: list[RoundFacts]
    """The baseline's rounds of the same cell; empty for the baseline itself."""
    prompts: dict[str, str] = field(default_factory=dict)
    """Pool by prompt_id, from the workload file."""
    planned: dict[str, int] = field(default_factory=dict)
    """Planned tokens by prompt_id, of prompts that were made to a length."""

    @property
    def is_baseline(self) -> bool:
        return self.engine == self.run.baseline

    def each(self, check: Callable[[RoundFacts], Finding]) -> Finding:
        """The worst of the rounds whose speed is compared: a profiler beside the load disturbs it."""
        rounds = [facts for facts in self.rounds if not facts.capture.disturbed] or self.rounds
        return worst((check(facts) for facts in rounds), (facts.number for facts in rounds))


@dataclass(slots=True)
class EngineFacts:
    """All that the checks of one engine's lives may look at."""

    run: Run
    engine: str
    rounds: list[Round]

    @property
    def is_baseline(self) -> bool:
        return self.engine == self.run.baseline

    @property
    def lives(self) -> list[Round]:
        """Every life of the engine, those before an interruption included."""
        return [life for round_ in self.rounds for life in round_.all_lives()]

    def each(self, check: Callable[[Round], Finding]) -> Finding:
        return worst((check(life) for life in self.rounds), (life.number for life in self.rounds))

    def each_life(self, check: Callable[[Round], Finding]) -> Finding:
        """Also over the lives before, where a round was interrupted: cells that were done by then are theirs.

        A life whose end nobody saw (its driver was killed) can tell nothing, and is left to "engine alive".
        """
        lives = [one for life in self.rounds for one in (*life.lives_before(), life)]
        return worst((check(life) for life in lives), (life.number for life in lives))


CellCheck = Callable[[CellFacts], Finding]
EngineCheck = Callable[[EngineFacts], Finding]

CELL_CHECKS: dict[str, CellCheck] = {}
ENGINE_CHECKS: dict[str, EngineCheck] = {}


def cell_check(name: str) -> Callable[[CellCheck], CellCheck]:
    """Register a check per engine and cell."""

    def register(function: CellCheck) -> CellCheck:
        CELL_CHECKS[name] = function
        return function

    return register


def engine_check(name: str) -> Callable[[EngineCheck], EngineCheck]:
    """Register a check per engine, over all its lives."""

    def register(function: EngineCheck) -> EngineCheck:
        ENGINE_CHECKS[name] = function
        return function

    return register


GREEDY_BELOW = 1e-6
"""Some engines refuse or ignore temperature 0, and decode greedily at a temperature this small."""


def is_greedy(temperature: object) -> bool:
    """Whether a temperature asks for greedy decoding."""
    return isinstance(temperature, int | float) and 0 <= temperature < GREEDY_BELOW
