"""A whole profile: its sections, and that their names fit together."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from driver.profile.fields import Listed, Name, Number, Positive, Seconds, Section, Seed
from driver.profile.sections import Cell, EngineSection, Gate, Objectives, Sampling, Verdict, WorkloadSection
from records import NAME


class Profile(Section):
    """A whole profile, resolved. `engines[].max_seq_len` falls back to the profile's own."""

    name: Name
    description: str = ""
    baseline: str
    rounds: Positive = 3
    seed: Seed = 1
    max_seq_len: Positive = 8192
    thinking: bool = False
    cache: bool = False
    tokenizer: str | None = None
    error_limit: Annotated[Number, Field(ge=0, le=1)] = 0.0
    on_probe_failure: Literal["refuse", "void"] = "refuse"
    sampling: Sampling = Sampling()
    engines: Annotated[Listed[EngineSection], Field(min_length=1)]
    workloads: dict[str, WorkloadSection] = Field(default_factory=dict)
    cells: Annotated[Listed[Cell], Field(min_length=1)]
    objectives: Objectives | None = None
    parity_margin: dict[str, Seconds] = Field(default_factory=dict)
    gate: Gate = Gate()
    verdict: Verdict = Verdict()

    @model_validator(mode="after")
    def _engines_fit(self) -> Self:
        names = [engine.name for engine in self.engines]
        _no_twins("engines", names)
        if self.baseline not in names:
            raise ValueError(f"baseline: {self.baseline!r} is none of the engines ({', '.join(names)})")
        reserved = {"workloads"} & set(names)
        if reserved:
            raise ValueError(f"engines: the name {reserved.pop()!r} is taken by a folder of the run")
        return self

    @model_validator(mode="after")
    def _cells_can_be_folders(self) -> Self:
        _no_twins("cells", [cell.label for cell in self.cells])
        for cell in self.cells:
            if "." not in cell.label:
                raise ValueError(f"cells: the name {cell.label!r} must read <scenario>.<workload>")
            if not NAME.fullmatch(cell.workload_name):
                raise ValueError(
                    f"cells: the workload {cell.workload!r} would be a folder's name; give it a plain one,"
                    " and its file in [workloads.<name>]"
                )
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
