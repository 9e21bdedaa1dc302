"""What a profile may say: typed, closed and frozen sections. Reading one is `driver.profile`'s."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from engines import KINDS
from records import NAME

LOCUSTFILES = Path(__file__).resolve().parent.parent / "locustfiles"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Name = Annotated[str, Field(pattern=rf"^{NAME.pattern}$")]
Positive = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0, strict=False)]


class Sampling(_Section):
    """Every sampler by name: engines have defaults of their own that are not greedy."""

    temperature: Annotated[float, Field(ge=0, strict=False)] = 0.0
    top_p: Annotated[float, Field(gt=0, le=1, strict=False)] = 1.0
    top_k: Count | None = None
    min_p: Annotated[float, Field(ge=0, le=1, strict=False)] | None = None
    repeat_penalty: Annotated[float, Field(gt=0, strict=False)] | None = None
    presence_penalty: Annotated[float, Field(strict=False)] = 0.0
    frequency_penalty: Annotated[float, Field(strict=False)] = 0.0
    seed: int | None = None


class EngineSection(_Section):
    """One engine. `model` is a path, `package:DIST/FILE`, or `convert:HF_DIR` (the BF16 GGUF made of that folder)."""

    name: Name
    kind: str
    model: str | None = None
    model_name: str | None = None
    url: str | None = None
    port: Annotated[int, Field(gt=0, lt=65536)] | None = None
    slots: Positive = 4
    max_seq_len: Positive | None = None
    threads: Positive | None = None
    binary: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    request_extras: dict[str, Any] = {}
    options: dict[str, Any] = {}
    cores: str | None = Field(None, pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$")
    ready_timeout_s: Seconds | None = None

    @field_validator("args", mode="before")
    @classmethod
    def _list_to_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

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
        return self


class WorkloadSection(_Section):
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


class Cell(_Section):
    """One scenario over one workload."""

    scenario: str
    workload: str
    name: Name | None = None
    requests: Count | None = None
    duration_s: Seconds | None = None
    warmup: Count = 0
    samples: Positive = 1
    rounds: Positive | None = None  # only the first rounds have this cell; by default all have it
    max_tokens: Positive
    fixed_length: bool = False
    users: Positive | None = None
    options: dict[str, str | int | float | bool] = {}
    request_timeout_s: Seconds = 600.0
    silence_timeout_s: Seconds = 120.0
    cores: str | None = Field(None, pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$")

    @field_validator("scenario")
    @classmethod
    def _known_scenario(cls, value: str) -> str:
        known = scenarios()
        if value not in known:
            raise ValueError(f"unknown scenario {value!r}; known are {', '.join(known)}")
        return value

    @property
    def label(self) -> str:
        """The cell's name and folder: `<scenario>.<workload>` unless the profile names it."""
        return self.name or f"{self.scenario}.{Path(self.workload).stem}"

    @property
    def workload_name(self) -> str:
        return Path(self.workload).stem


class Objectives(_Section):
    """Latency objectives, for goodput: a request counts that met every one of them. Milliseconds."""

    ttft_ms: Seconds | None = None
    tpot_ms: Seconds | None = None
    e2e_ms: Seconds | None = None


class Gate(_Section):
    """When the nightly comparison fails (docs/nightly.md)."""

    threshold: Annotated[float, Field(gt=0, lt=1, strict=False)] = 0.03
    metrics: tuple[str, ...] = ("output_tok_s", "ttft_ms_p50", "tpot_ms_p50")
    baseline: str = "window:7"
    time_limit_s: Seconds | None = None

    @field_validator("metrics", mode="before")
    @classmethod
    def _list_to_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value


class Profile(_Section):
    """A whole profile, resolved. `engines[].max_seq_len` falls back to the profile's own."""

    name: Name
    description: str = ""
    baseline: str
    rounds: Positive = 1
    seed: int = 1
    max_seq_len: Positive = 8192
    thinking: bool = False
    cache: bool = False
    error_limit: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.0
    tokenizer: str | None = None
    on_probe_failure: Literal["refuse", "void"] = "refuse"
    vram_budget_gib: Seconds | None = None
    sampling: Sampling = Sampling()
    engines: tuple[EngineSection, ...] = Field(min_length=1)
    workloads: dict[str, WorkloadSection] = {}
    cells: tuple[Cell, ...] = Field(min_length=1)
    objectives: Objectives | None = None
    parity_margin: dict[str, Annotated[float, Field(gt=0, strict=False)]] = {}
    gate: Gate = Gate()

    @field_validator("engines", "cells", mode="before")
    @classmethod
    def _list_to_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _names_fit(self) -> Self:
        names = [engine.name for engine in self.engines]
        _no_twins("engines", names)
        _no_twins("cells", [cell.label for cell in self.cells])
        if self.baseline not in names:
            raise ValueError(f"baseline: {self.baseline!r} is none of the engines ({', '.join(names)})")
        reserved = {"workloads"} & set(names)
        if reserved:
            raise ValueError(f"engines: the name {reserved.pop()!r} is taken by a folder of the run")
        asked = {cell.workload for cell in self.cells}
        for name in self.workloads:
            if name not in asked:
                raise ValueError(f"workloads.{name}: no cell asks for it")
        for cell in self.cells:
            if "." not in cell.label:
                raise ValueError(f"cells: the name {cell.label!r} must read <scenario>.<workload>")
        return self

    def engine(self, name: str) -> EngineSection:
        return next(engine for engine in self.engines if engine.name == name)

    @property
    def candidates(self) -> list[str]:
        return [engine.name for engine in self.engines if engine.name != self.baseline]


def scenarios() -> list[str]:
    """The names that a cell may use: the files in locustfiles/ without a leading underscore."""
    return sorted(path.stem for path in LOCUSTFILES.glob("*.py") if not path.name.startswith("_"))


def _no_twins(key: str, names: list[str]) -> None:
    twins = {name for name in names if names.count(name) > 1}
    if twins:
        raise ValueError(f"{key}: the name {min(twins)!r} is used twice")
