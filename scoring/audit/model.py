"""Defines an audit check: its status, the facts that it reads, and the decorators that register it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from records import JsonObject
from scoring.captures import Capture
from scoring.runs import Round, Run
from scoring.speed.latency import CellFigures


class Status(StrEnum):
    """The result of a check."""

    PASS = "pass"  # noqa: S105 (no password)
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"


_ORDER = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.PASS, Status.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True)
class Finding:
    """A status with its evidence: one sentence with figures."""

    status: Status
    evidence: str


def passed(evidence: str) -> Finding:
    """The check passed."""
    return Finding(Status.PASS, evidence)


def warned(evidence: str) -> Finding:
    """Something is doubtful, but the comparison is not void."""
    return Finding(Status.WARN, evidence)


def failed(evidence: str) -> Finding:
    """The comparison is void."""
    return Finding(Status.FAIL, evidence)


def unknown(evidence: str) -> Finding:
    """The engine or the run does not report the fact."""
    return Finding(Status.UNKNOWN, evidence)


def not_applicable(evidence: str) -> Finding:
    """The check does not apply here."""
    return Finding(Status.NOT_APPLICABLE, evidence)


def worst(findings: Iterable[Finding], rounds: Iterable[int] | None = None) -> Finding:
    """The worst of several findings. Given several `rounds`, its evidence names the round."""
    listed = list(findings)
    if not listed:
        return unknown("nothing was captured")
    chosen = min(range(len(listed)), key=lambda i: _ORDER.index(listed[i].status))
    numbers = list(rounds) if rounds is not None else []
    if len(numbers) > 1 and listed[chosen].status is not Status.PASS:
        return Finding(listed[chosen].status, f"round {numbers[chosen]}: {listed[chosen].evidence}")
    return listed[chosen]


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
    """The facts for the checks of one engine in one cell."""

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
    """Planned tokens by prompt_id, for synthetic prompts."""

    @property
    def is_baseline(self) -> bool:
        return self.engine == self.run.baseline

    def each(self, check: Callable[[RoundFacts], Finding]) -> Finding:
        """The worst finding over the rounds whose speed is compared (rounds with a profiler are left out)."""
        rounds = [facts for facts in self.rounds if not facts.capture.disturbed] or self.rounds
        return worst((check(facts) for facts in rounds), (facts.number for facts in rounds))


@dataclass(slots=True)
class EngineFacts:
    """The facts for the checks of one engine."""

    run: Run
    engine: str
    rounds: list[Round]

    @property
    def is_baseline(self) -> bool:
        return self.engine == self.run.baseline

    @property
    def processes(self) -> list[Round]:
        """Every engine process as a round, including those before an interruption."""
        return [process for round_ in self.rounds for process in round_.all_processes()]

    def each(self, check: Callable[[Round], Finding]) -> Finding:
        return worst((check(round_) for round_ in self.rounds), (round_.number for round_ in self.rounds))

    def each_process(self, check: Callable[[Round], Finding]) -> Finding:
        """The worst finding over all engine processes, including those before an interruption: they measured cells too.

        Processes whose end nobody recorded (their driver was killed) are left to the check "engine alive".
        """
        processes = [process for round_ in self.rounds for process in (*round_.earlier_processes(), round_)]
        return worst((check(process) for process in processes), (process.number for process in processes))


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
    """Register a check per engine, over all its rounds."""

    def register(function: EngineCheck) -> EngineCheck:
        ENGINE_CHECKS[name] = function
        return function

    return register


GREEDY_BELOW = 1e-6
"""Some engines refuse or ignore temperature 0, but decode greedily at a temperature below this."""


def is_greedy(temperature: object) -> bool:
    """Whether a temperature asks for greedy decoding."""
    return isinstance(temperature, int | float) and 0 <= temperature < GREEDY_BELOW
