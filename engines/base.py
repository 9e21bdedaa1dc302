"""The interface of an engine: how it is started, its readiness, its read-back, and the fields of its requests."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import requests

from engines.http import certificate_problem, session
from engines.machine.vram import ModelShape
from records.endpoint import server_url
from records.headers import replacing, resolved
from records.redaction import shown_argv, shown_env

HTTP_TIMEOUT_S = 5.0
SHARED_OPTIONS: Mapping[str, type] = {"device": str, "allow_cotenants": bool}
"""Options of every kind of engine, with the type of their values; see docs/engines.md."""


class EngineError(Exception):
    """An engine that cannot be used. The message is one line: what is wrong, why, how to fix it."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The profile's settings of one engine. `max_seq_len` is tokens per slot, prompt and answer together."""

    name: str
    kind: str
    model: Path | None = None
    model_name: str | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    slots: int = 1
    max_seq_len: int = 8192
    threads: int | None = None
    binary: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str | None = None
    command: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers of every request to it; a value `ENV:VAR` comes from the environment."""
    thinking: bool = False
    cache: bool = False


@dataclass(frozen=True, slots=True)
class ReadBack:
    """The settings that a running engine reports about itself. None: not reported."""

    build: str | None = None
    model: str | None = None
    context_per_slot: int | None = None
    slots: int | None = None
    chat_template_sha256: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Engine(ABC):
    """One engine of a comparison. A subclass states only what differs."""

    kind: ClassVar[str]
    started_here: ClassVar[bool] = True
    reserves_memory: ClassVar[bool] = False
    """Whether it reserves GPU memory as a pool when it starts: then a setting decides the peak, not the need."""
    own_options: ClassVar[Mapping[str, type]] = {}
    """The kind's own `options`, besides SHARED_OPTIONS, with the types of their values; float accepts integers."""
    usual_start_s: ClassVar[float] = 10.0
    """Usual length of a start in seconds, for the plan's estimate of the time."""
    ready_timeout_s: ClassVar[float] = 600.0
    """Default time limit for a start in seconds: big weights take minutes to load."""

    cwd: Path | None = None
    """Working directory of its process; None: this program's folder."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.unreachable: str | None = None
        """Why the last request could not reach the server, unless simply no server listens."""

    @property
    def base_url(self) -> str:
        return f"http://{self.config.host}:{self.config.port}"

    @property
    def model_name(self) -> str | None:
        """The model's name in a request; None lets the engine choose."""
        return self.config.model_name

    def check(self) -> None:
        """Check everything that the start needs (model file, binary), before anything runs.

        Raises:
            EngineError: something is missing.
        """
        return

    @abstractmethod
    def argv(self) -> list[str]:
        """The command line that starts it, without secrets."""

    def env(self) -> dict[str, str]:
        """Environment variables on top of the driver's own."""
        return dict(self.config.env)

    def shown_argv(self) -> list[str]:
        """The command line for reports: values after `--api-key` and the like are hidden."""
        return shown_argv(self.argv())

    def shown_env(self) -> dict[str, str]:
        """The environment for reports: values of names that look like secrets are hidden."""
        return shown_env(self.env())

    def on_gpu(self) -> bool:
        """Whether it will run on the GPU, if there is one; false with `options.device = "cpu"`."""
        return self.started_here and self.config.options.get("device", "cuda") != "cpu"

    def model_shape(self) -> ModelShape | None:
        """The properties of its model that decide the GPU memory it needs. None: unknown."""
        return None

    def is_ready(self) -> bool:
        """Whether it accepts requests now; anything except HTTP 200 from `/health` means not yet."""
        return self.answers("/health")

    def read_back(self) -> ReadBack:
        """Ask the running engine for its real settings."""
        return ReadBack()

    def request_fields(self, sampling: Mapping[str, Any], *, fixed_length: bool) -> dict[str, Any]:
        """All request fields beside model, messages, length and stream, in this engine's dialect."""
        return {**self.request_extras(fixed_length=fixed_length), **self.sampling(sampling)}

    def sampling(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The profile's sampling in this engine's dialect. Unknown fields are sent too: the engine refuses them."""
        return dict(asked)

    def request_extras(self, *, fixed_length: bool) -> dict[str, Any]:
        """The request fields, in this engine's dialect, for the profile's mode (thinking, cache, fixed length)."""
        return {"ignore_eos": True} if fixed_length else {}

    def explain_exit(self, log_tail: str, code: int | None) -> str | None:
        """Explain an exit specific to this engine (`engines.process.exit_reason` has the others). None: unknown."""
        return None

    def provenance(self) -> dict[str, Any] | None:
        """How the program was built (source, flags, compiler, hash); None if unknown."""
        return None

    def read_log(self, told: ReadBack, log: Path) -> ReadBack:
        """Add to `told` what only the log says, for an engine that does not report it otherwise."""
        return told

    def log_findings(self, log: Path) -> dict[str, Any]:
        """The facts from the engine's log for the report."""
        return {}

    def answers(self, path: str) -> bool:
        """Whether a GET of a path has status 200; the body is ignored, because vLLM's `/health` has none."""
        answer = self._fetch(path)
        return answer is not None and answer.status_code == 200

    def get(self, path: str) -> dict[str, Any]:
        """GET a path of the running engine as a JSON object; empty if the response is anything else."""
        answer = self._fetch(path)
        try:
            body = answer.json() if answer is not None and answer.status_code == 200 else None
        except ValueError:
            body = None
        return body if isinstance(body, dict) else {}

    def served_model(self) -> Mapping[str, Any]:
        """The first entry of `/v1/models`; empty if the list is."""
        models = self.get("/v1/models").get("data")
        first = models[0] if isinstance(models, list) and models else None
        return first if isinstance(first, dict) else {}

    def _fetch(self, path: str) -> requests.Response | None:
        try:
            with session() as http:
                answer = http.get(server_url(self.base_url, path), timeout=HTTP_TIMEOUT_S, headers=self.headers())
        except (requests.RequestException, ValueError) as error:
            self.unreachable = certificate_problem(error)
            return None
        self.unreachable = None
        return answer

    def auth(self) -> dict[str, str]:
        """Headers that carry the API key, if this engine needs one."""
        return {}

    def headers(self) -> dict[str, str]:
        """All headers of a request: the API key, and the profile's headers, which override it.

        Raises:
            EngineError: the variable of a header is not set.
        """
        try:
            return replacing(self.auth(), resolved(self.config.headers))
        except ValueError as error:
            raise EngineError(f"{self.config.name}: {error}") from None


def sha256_text(text: str | None) -> str | None:
    """Hash of a text such as a chat template; None stays None."""
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()
