"""The sections of a profile. `driver.profile.read` reads a profile; `driver.profile.model` checks it as a whole."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from driver.profile.cell_options import CAPACITY_KIND, Options, check_options, exact_users, scenario_kind, scenarios
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
from load.options import TRACE
from nightly.gate_rules import DEFAULT_BASELINE, check_metrics, parse_choice
from records import cell_name, workload_name
from records.headers import check_headers
from scoring.metrics import CAPACITY, DECIDING
from workloads.conversations import LONGEST_THINK_S
from workloads.synthetic import MOST_TOKENS, Distribution, Lengths
from workloads.traces import TraceFormat

DEFAULT_SLOTS = 4

Endpoint = Literal["chat", "completions"]
"""The keys of `records.endpoint.ENDPOINTS`."""


class Sampling(Section):
    """The samplers of every request. All are sent, because the defaults of engines are often not greedy."""

    temperature: Annotated[Number, Field(ge=0)] = 0.0
    """0 is greedy decoding."""
    top_p: Annotated[Number, Field(gt=0, le=1)] = 1.0
    """Share of probability from which tokens are drawn."""
    top_k: Count | None = None
    """Number of tokens from which one is drawn; null leaves it out."""
    min_p: Annotated[Number, Field(ge=0, le=1)] | None = None
    """Least probability, relative to the best token; null leaves it out."""
    repeat_penalty: Annotated[Number, Field(gt=0)] | None = None
    """Penalty on repeated tokens; null leaves it out."""
    presence_penalty: Number = 0.0
    """Penalty on tokens that occurred."""
    frequency_penalty: Number = 0.0
    """Penalty on tokens by how often they occurred."""
    seed: int | None = None
    """Seed of the sampler; null leaves it out."""


class EngineSection(Section):
    """One engine. `model` is a path, `package:DIST/FILE`, or `convert:HF_DIR` (a BF16 GGUF made from it)."""

    name: Name
    """Its name in reports, and its folder."""
    kind: str
    """One of `engines.KINDS`."""
    model: str | None = None
    """A path, package:DIST/FILE, or convert:HF_DIR."""
    model_name: str | None = None
    """The `model` field of requests."""
    url: str | None = None
    """Base URL of a server that runs already (kind remote)."""
    command: CommandLine = ()
    """Command line that starts the server (kind command)."""
    port: Annotated[int, Field(gt=0, lt=65536)] | None = None
    """Port of a server that is started here; null: any free one."""
    slots: Positive | None = None
    """Requests that it may batch; null: not checked (kinds remote and command)."""
    max_seq_len: Positive | None = None
    """Tokens of each slot; null: the profile's."""
    threads: Positive | None = None
    """CPU threads."""
    binary: str | None = None
    """Path or name of the program."""
    args: Listed[str] = ()
    """Further command-line arguments."""
    env: dict[Variable, str] = Field(default_factory=dict)
    """Environment of its process."""
    request_extras: dict[str, Any] = Field(default_factory=dict)
    """Fields of every request; they override all others."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Further HTTP headers of every request; "ENV:VAR" is read from the environment and never stored."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    """The request field for the largest length of an answer; null: the probe finds it out."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Settings that only its kind has (docs/engines.md)."""
    cores: Cores | None = None
    """Cores to which its process is pinned, such as 0 or 0,2-3."""
    ready_timeout_s: Seconds | None = None
    """Seconds that a start may take; null: the default of its kind."""

    @model_validator(mode="before")
    @classmethod
    def _slots_of_its_kind(cls, values: Any) -> Any:
        """Set the default number of slots, except for servers that this program does not configure."""
        if isinstance(values, dict) and values.get("kind") not in ("remote", "command"):
            return {"slots": DEFAULT_SLOTS, **values}
        return values

    @field_validator("url")
    @classmethod
    def _whole_url(cls, value: str | None) -> str | None:
        return None if value is None else complete_url(value)

    @field_validator("headers")
    @classmethod
    def _headers_can_be_sent(cls, value: dict[str, str]) -> dict[str, str]:
        check_headers(value)
        return value

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


class Synthetic(Section):
    """Prompts of planned lengths in tokens, without a chat template (`workloads.synthetic`)."""

    input_tokens: Annotated[int, Field(ge=2, le=MOST_TOKENS)]
    """Tokens of a prompt, on average; the prefix counts."""
    output_tokens: Positive | None = None
    """Tokens of an answer, on average, where the cell gives no max_tokens."""
    input_sd: Annotated[Number, Field(ge=0)] = 0.0
    """Standard deviation of the prompts' lengths; with 0 all are equal."""
    output_sd: Annotated[Number, Field(ge=0)] = 0.0
    """Standard deviation of the answers' lengths."""
    distribution: Distribution = "normal"
    """How lengths are drawn: normal, uniform or lognormal."""
    prefix_tokens: Count = 0
    """Length of the prefix that the prompts of a group share."""
    prefix_groups: Positive = 1
    """Number of different prefixes; prompts take them in turn."""
    prefix_share: Annotated[Number, Field(gt=0, le=1)] = 1.0
    """Share of the prompts that begin with one of the prefixes."""
    turns: Positive = 1
    """Turns of a conversation, on average; 1: single questions. input_tokens are those of each question."""
    turns_sd: Annotated[Number, Field(ge=0)] = 0.0
    """Standard deviation of the number of turns."""
    think_s: Annotated[Number, Field(ge=0, le=LONGEST_THINK_S)] = 0.0
    """Seconds from an answer to the next turn, on average."""
    think_sd: Annotated[Number, Field(ge=0)] = 0.0
    """Standard deviation of these seconds, which are log-normal."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.lengths()
        return self

    def lengths(self) -> Lengths:
        return Lengths(**self.model_dump())


class TraceSection(Section):
    """The requests of a trace, at their times and of their lengths (`workloads.traces`)."""

    file: Annotated[str, Field(min_length=1)]
    """A trace, or the requests.jsonl of a run's cell."""
    format: TraceFormat = "auto"
    """mooncake, burstgpt, azure, records; auto looks at the first line."""
    speed: Annotated[Number, Field(gt=0)] = 1.0
    """How much faster than recorded requests come: 2.0 halves all times."""
    cap_tokens: Positive | None = None
    """Most tokens of a prompt, and of an answer; longer ones are cut."""


class WorkloadSection(Section):
    """The part of a workload that is asked, and how. Cells refer to it by its name."""

    file: str | None = None
    """A JSONL file of prompts (docs/answers.md)."""
    synthetic: Synthetic | None = None
    """Generated prompts of planned lengths."""
    trace: TraceSection | None = None
    """Requests of a trace; the cell is open_loop with the option arrivals = "trace"."""
    first: Positive | None = None
    """Ask only this many first problems."""
    sample: Positive | None = None
    """Ask a seeded sample of this many problems."""
    few_shot: Count = 0
    """Worked examples before each problem."""
    endpoint: Endpoint | None = None
    """chat or completions; null: the profile's."""

    @model_validator(mode="after")
    def _one_subset(self) -> Self:
        if self.first is not None and self.sample is not None:
            raise ValueError("give `first` (the first n) or `sample` (a seeded sample of n), not both")
        if self.synthetic is not None and (self.file is not None or self.few_shot):
            raise ValueError("synthetic prompts are made by the tool; leave `file` and `few_shot` out")
        if self.trace is not None and (self.file or self.synthetic or self.few_shot or self.sample):
            raise ValueError("a trace says what is asked; leave `file`, `synthetic`, `few_shot` and `sample` out")
        return self


class Cell(Section):
    """One scenario with one workload."""

    scenario: str
    """The shape of the load: a file in locustfiles/."""
    workload: Annotated[str, Field(min_length=1)]
    """The prompts: a workload's name, or a JSONL file."""
    name: Name | None = None
    """Name and folder of the cell; null: <scenario>.<workload>."""
    requests: Count | None = None
    """Measured requests; null: each prompt once."""
    conversations: Count | None = None
    """Measured conversations, where the workload is of such; null: each once."""
    duration_s: Seconds | None = None
    """Seconds in which measured requests may begin; null: no limit."""
    warmup: Count = 0
    """Requests before measuring, with prompts that are never measured."""
    samples: Positive = 1
    """Answers to each prompt."""
    rounds: Positive | None = None
    """The cell is only in this many first rounds; null: in all."""
    max_tokens: Positive | None = None
    """Largest length of an answer in tokens; null: that of its prompt's row or task, else 128."""
    fixed_length: bool = False
    """Whether each answer has exactly max_tokens."""
    users: Positive | None = None
    """Users at the same time; null: the scenario's."""
    options: Options = Field(default_factory=dict)
    """Further options of the scenario (docs/options.md)."""
    request_timeout_s: Seconds = 600.0
    """Seconds that a request may take."""
    silence_timeout_s: Seconds = 120.0
    """Seconds without a byte after which a request has failed."""
    cores: Cores | None = None
    """Cores to which the load process is pinned."""

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
        # `drain-timeout` and `drain_timeout` are the same option; all readers use the second spelling.
        return {name.replace("-", "_"): option for name, option in value.items()}

    @model_validator(mode="after")
    def _capacity_ends_by_itself(self) -> Self:
        if self.searches_capacity:
            for key in ("requests", "conversations", "duration_s"):
                if getattr(self, key):
                    raise ValueError(f"{key}: capacity measures each level for as long as it needs; leave it out")
            if self.samples != 1:
                raise ValueError("samples: capacity asks its prompts in turn; leave it out")
        return self

    @property
    def searches_capacity(self) -> bool:
        """Whether its load searches the highest level that meets the profile's objectives."""
        return scenario_kind(self.scenario) == CAPACITY_KIND

    @property
    def asks_each_once(self) -> bool:
        """Whether it asks each prompt of its workload once (per sample), and so can be resumed."""
        return not (self.asked or self.duration_s or self.searches_capacity or self.replays)

    @property
    def replays(self) -> bool:
        """Whether it sends the requests of a trace at their times; cut, it starts again as a whole."""
        return self.options.get("arrivals") == TRACE

    @property
    def asked(self) -> int | None:
        """How many requests, or conversations, are asked for; None where no number is."""
        return self.conversations or self.requests

    @property
    def label(self) -> str:
        """The cell's name and folder: `<scenario>.<workload>` unless the profile names it."""
        return cell_name(self.scenario, self.workload, self.name)

    @property
    def workload_name(self) -> str:
        return workload_name(self.workload)


class Objectives(Section):
    """Latency objectives in ms, for goodput and capacity: a request counts if it meets all of them."""

    ttft_ms: Seconds | None = None
    """Time to the first token."""
    tpot_ms: Seconds | None = None
    """Time per output token."""
    e2e_ms: Seconds | None = None
    """Time of the whole request."""


class Gate(Section):
    """When the nightly comparison fails (docs/nightly.md)."""

    threshold: Annotated[Number, Field(gt=0, lt=1)] = 0.03
    """Relative change that fails the night."""
    metrics: Listed[str] = DECIDING
    """The figures that are compared."""
    baseline: str = DEFAULT_BASELINE
    """The nights to compare with (docs/nightly.md)."""
    time_limit_s: Seconds | None = None
    """Seconds that a night may take; null: no limit."""

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        check_metrics(value)
        if searched := [name for name in value if name in CAPACITY]:
            raise ValueError(f"{searched[0]!r} is judged by `compare` and `run` only: its steps are coarse")
        return value

    @field_validator("baseline")
    @classmethod
    def _known_baseline(cls, value: str) -> str:
        parse_choice(value)
        return value


class Hooks(Section):
    """Commands that run around or beside the load (docs/profiles.md)."""

    before_cell: CommandLine = ()
    """Runs when the engine is up, before each cell's load."""
    after_cell: CommandLine = ()
    """Runs after each cell's load, while the engine is still up."""
    during_cell: CommandLine = ()
    """Runs beside each cell's load in one round, whose speed is not compared."""
    during_round: Positive = 1
    """The round of during_cell."""
    on_regression: CommandLine = ()
    """Runs beside each cell with a regression, in one more start of the candidate and of the baseline."""
    timeout_s: Seconds = 60.0
    """Time limit of a hook in seconds; for during_cell, counted from the cell's end."""


class Verdict(Section):
    """The figures of each cell that get a verdict; all others are exploratory (shown with their interval only)."""

    deciding: Annotated[Listed[str], Field(min_length=1)] = DECIDING
    """Metrics that get a verdict."""

    @field_validator("deciding")
    @classmethod
    def _known_metrics(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        check_metrics(value)
        return value
