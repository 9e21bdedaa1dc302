"""Defines a whole profile, and checks that its sections fit together."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from driver.profile.fields import Listed, Name, Number, Positive, Seconds, Section, Seed
from driver.profile.sections import (
    Cell,
    Endpoint,
    EngineSection,
    Gate,
    Hooks,
    Objectives,
    Sampling,
    Verdict,
    WorkloadSection,
)
from nightly.guard import parse_duration
from records import NAME
from records.run_folder import RESERVED_IN_ROUND, RESERVED_IN_RUN


def _int_or_auto(value: object) -> object:
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    raise ValueError(f'{shown} was given; expected a whole number above 0, or "auto"')


Rounds = Annotated[int | Literal["auto"], BeforeValidator(_int_or_auto)]


class Profile(Section):
    """A whole profile, resolved. `engines[].max_seq_len` falls back to the profile's own."""

    name: Name
    """The name of the profile; run ids begin with it."""
    description: str = ""
    """One line for reports."""
    baseline: str
    """The engine with which all others are compared."""
    rounds: Rounds = 3
    """How often each engine is started and measured; "auto" adds rounds until all deciding figures are decided."""
    time: str | None = None
    """Time limit for measuring, such as "10m". Default: 10 minutes with rounds = "auto", else none."""
    seed: Seed = 1
    """Seed of the order and subsets of prompts, and of the arrivals of an open loop."""
    max_seq_len: Positive = 8192
    """Tokens of each slot, prompt and answer together."""
    thinking: bool = False
    """Whether the model may think; the same for all engines."""
    cache: bool = False
    """Whether prefixes may come from a cache; the same for all engines."""
    endpoint: Endpoint = "chat"
    """chat asks /v1/chat/completions; completions asks /v1/completions, without a chat template."""
    tokenizer: str | None = None
    """A Hugging Face folder or tokenizer.json that counts the tokens of answers without usage."""
    error_limit: Annotated[Number, Field(ge=0, le=1)] = 0.0
    """Share of failed requests above which a comparison is void."""
    on_probe_failure: Literal["refuse", "void"] = "refuse"
    """What to do with an engine that contradicts the profile: refuse it, or measure it as void."""
    sampling: Sampling = Sampling()
    """The samplers of every request."""
    engines: Annotated[Listed[EngineSection], Field(min_length=1)]
    """The engines, in the order of the reports."""
    workloads: dict[str, WorkloadSection] = Field(default_factory=dict)
    """Sections of workloads, by the name that cells use."""
    cells: Annotated[Listed[Cell], Field(min_length=1)]
    """The measurements of each engine, in this order."""
    objectives: Objectives | None = None
    """Latency objectives, for goodput and for the scenario capacity."""
    parity_margin: dict[str, Seconds] = Field(default_factory=dict)
    """Difference in accuracy (points) that counts as equivalent, by graded workload; default 2."""
    hooks: Hooks = Hooks()
    """Commands that run around or beside the load, mostly profilers."""
    gate: Gate = Gate()
    """The rules of a nightly run."""
    verdict: Verdict = Verdict()
    """Which figures get a verdict."""

    def endpoint_of(self, cell: Cell) -> str:
        """The endpoint of a cell: its workload's, else the profile's."""
        section = self.workloads.get(cell.workload)
        return (section.endpoint if section else None) or self.endpoint

    @property
    def endpoints(self) -> list[str]:
        """The endpoints of the cells, in their order."""
        return list(dict.fromkeys(self.endpoint_of(cell) for cell in self.cells))

    @property
    def time_s(self) -> float:
        """The time limit of the run in seconds, for `rounds = "auto"` or a profile with `time`."""
        return parse_duration(self.time or "10m")

    @model_validator(mode="after")
    def _time_is_a_duration(self) -> Self:
        if self.time is not None:
            try:
                parse_duration(self.time)
            except ValueError as error:
                raise ValueError(f"time: {error}") from None
        return self

    @model_validator(mode="after")
    def _engines_fit(self) -> Self:
        names = [engine.name for engine in self.engines]
        _no_twins("engines", names)
        if self.baseline not in names:
            raise ValueError(f"baseline: {self.baseline!r} is none of the engines ({', '.join(names)})")
        for name in names:
            if name in RESERVED_IN_RUN or name.startswith("comparison-"):
                raise ValueError(f"engines: the name {name!r} is taken by a file or folder of the run")
        return self

    @model_validator(mode="after")
    def _cells_can_be_folders(self) -> Self:
        _no_twins("cells", [cell.label for cell in self.cells])
        for cell in self.cells:
            if "." not in cell.label:
                raise ValueError(f"cells: the name {cell.label!r} must read <scenario>.<workload>")
            if cell.label in RESERVED_IN_ROUND or cell.label.startswith(("engine.partial-", "server.partial-")):
                raise ValueError(f"cells: the name {cell.label!r} is taken by a file of the round")
            if not NAME.fullmatch(cell.workload_name):
                raise ValueError(
                    f"cells: the workload {cell.workload!r} would be a folder's name; give it a plain one,"
                    " and its file in [workloads.<name>]"
                )
        return self

    @model_validator(mode="after")
    def _capacity_has_objectives(self) -> Self:
        limits = self.objectives.model_dump(exclude_none=True) if self.objectives else {}
        for cell in self.cells:
            if cell.searches_capacity and not (limits or cell.options.get("objectives")):
                raise ValueError(f"objectives: {cell.label} needs at least one, such as ttft_ms = 500")
        return self

    @model_validator(mode="after")
    def _workloads_are_asked(self) -> Self:
        asked = {cell.workload: cell.workload_name for cell in self.cells}
        _no_twins("workloads", list(asked.values()))
        for name in self.workloads:
            if name not in asked:
                raise ValueError(f"workloads.{name}: no cell asks for it")
        for name in self.parity_margin:
            if name not in asked.values():
                raise ValueError(f"parity_margin.{name}: no cell asks for it")
        return self


def _no_twins(key: str, names: list[str]) -> None:
    twins = {name for name in names if names.count(name) > 1}
    if twins:
        raise ValueError(f"{key}: the name {min(twins)!r} is used twice")
