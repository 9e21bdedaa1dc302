"""The sections of a profile. Reading one is `driver.profile.read`'s; how they fit together `_profile_model`'s."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from driver.profile.cell_options import Options, check_options, exact_users, scenarios
from driver.profile.fields import (
    CommandLine,
    Cores,
    Count,
    Listed,
    Name,
    Number,
    Positive,
    Seconds,
    Section,
    Variable,
    complete_url,
)
from engines import KINDS
from engines import check_options as check_engine_options
from nightly.gate_rules import DEFAULT_BASELINE, check_metrics, parse_choice
from records import cell_name, workload_name
from scoring.metrics import DECIDING

DEFAULT_SLOTS = 4


class Sampling(Section):
    """Every sampler by name: engines have defaults of their own that are not greedy."""

    temperature: Annotated[Number, Field(ge=0)] = 0.0
    top_p: Annotated[Number, Field(gt=0, le=1)] = 1.0
    top_k: Count | None = None
    min_p: Annotated[Number, Field(ge=0, le=1)] | None = None
    repeat_penalty: Annotated[Number, Field(gt=0)] | None = None
    presence_penalty: Number = 0.0
    frequency_penalty: Number = 0.0
    seed: int | None = None


class EngineSection(Section):
    """One engine. `model` is a path, `package:DIST/FILE`, or `convert:HF_DIR` (the BF16 GGUF made of that folder)."""

    name: Name
    kind: str
    model: str | None = None
    model_name: str | None = None
    url: str | None = None
    command: CommandLine = ()
    port: Annotated[int, Field(gt=0, lt=65536)] | None = None
    slots: Positive | None = None
    max_seq_len: Positive | None = None
    threads: Positive | None = None
    binary: str | None = None
    args: Listed[str] = ()
    env: dict[Variable, str] = Field(default_factory=dict)
    request_extras: dict[str, Any] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    cores: Cores | None = None
    ready_timeout_s: Seconds | None = None

    @model_validator(mode="before")
    @classmethod
    def _slots_of_its_kind(cls, values: Any) -> Any:
        """A server that this program does not configure has the slots that it has."""
        if isinstance(values, dict) and values.get("kind") not in ("remote", "command"):
            return {"slots": DEFAULT_SLOTS, **values}
        return values

    @field_validator("url")
    @classmethod
    def _whole_url(cls, value: str | None) -> str | None:
        return None if value is None else complete_url(value)

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, value: str) -> str:
        if value not in KINDS:
            raise ValueError(f"unknown engine kind {value!r}; known are {', '.join(sorted(KINDS))}")
        return value

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        if self.kind == "remote":
            if not self.url:
                raise ValueError("a remote engine needs `url`, such as http://127.0.0.1:8080")
        elif self.url:
            raise ValueError('`url` is only for kind "remote"; this kind is started here')
        if bool(self.command) != (self.kind == "command"):
            raise ValueError('kind "command" needs `command`, and no other kind takes it')
        check_engine_options(self.kind, self.options)
        return self


class WorkloadSection(Section):
    """Which part of a workload is asked, and how. Named as in the cells."""

    file: str | None = None
    first: Positive | None = None
    sample: Positive | None = None
    few_shot: Count = 0

    @model_validator(mode="after")
    def _one_subset(self) -> Self:
        if self.first is not None and self.sample is not None:
            raise ValueError("give `first` (the first n) or `sample` (a seeded sample of n), not both")
        return self


class Cell(Section):
    """One scenario over one workload."""

    scenario: str
    workload: Annotated[str, Field(min_length=1)]
    name: Name | None = None
    requests: Count | None = None
    duration_s: Seconds | None = None
    warmup: Count = 0
    samples: Positive = 1
    rounds: Positive | None = None  # only the first rounds have this cell; by default all have it
    max_tokens: Positive
    fixed_length: bool = False
    users: Positive | None = None
    options: Options = Field(default_factory=dict)
    request_timeout_s: Seconds = 600.0
    silence_timeout_s: Seconds = 120.0
    cores: Cores | None = None

    @field_validator("scenario")
    @classmethod
    def _known_scenario(cls, value: str) -> str:
        known = scenarios()
        if value not in known:
            raise ValueError(f"unknown scenario {value!r}; known are {', '.join(known)}")
        return value

    @field_validator("users")
    @classmethod
    def _users_of_the_scenario(cls, value: int | None, info: ValidationInfo) -> int | None:
        scenario = info.data.get("scenario")
        exact = exact_users(scenario) if scenario else None
        if exact is not None and value not in (None, exact):
            raise ValueError(f"{value} was given; {scenario} always has {exact}, closed_loop takes any number")
        return value

    @field_validator("options")
    @classmethod
    def _known_options(cls, value: Options, info: ValidationInfo) -> Options:
        if scenario := info.data.get("scenario"):
            check_options(value, scenario)
        # `drain-timeout` and `drain_timeout` are one option, and every reader asks for the second.
        return {name.replace("-", "_"): option for name, option in value.items()}

    @property
    def label(self) -> str:
        """The cell's name and folder: `<scenario>.<workload>` unless the profile names it."""
        return cell_name(self.scenario, self.workload, self.name)

    @property
    def workload_name(self) -> str:
        return workload_name(self.workload)


class Objectives(Section):
    """Latency objectives, for goodput: a request counts that met every one of them. Milliseconds."""

    ttft_ms: Seconds | None = None
    tpot_ms: Seconds | None = None
    e2e_ms: Seconds | None = None


class Gate(Section):
    """When the nightly comparison fails (docs/nightly.md)."""

    threshold: Annotated[Number, Field(gt=0, lt=1)] = 0.03
    metrics: Listed[str] = DECIDING
    baseline: str = DEFAULT_BASELINE
    time_limit_s: Seconds | None = None

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        check_metrics(value)
        return value

    @field_validator("baseline")
    @classmethod
    def _known_baseline(cls, value: str) -> str:
        parse_choice(value)
        return value


class Verdict(Section):
    """Which figures of each cell get a verdict; all others are exploratory: shown with their interval, never judged."""

    deciding: Annotated[Listed[str], Field(min_length=1)] = DECIDING

    @field_validator("deciding")
    @classmethod
    def _known_metrics(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        check_metrics(value)
        return value
