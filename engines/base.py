"""What an engine is: how it is started, when it is ready, what it says of itself, and what a request to it needs."""

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
    """An engine that cannot be used. The message is one line: what, why, how to mend it."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What the profile asks of one engine. `max_seq_len` is tokens per slot, prompt and answer together."""

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
    """What a running engine reports about itself. None: not reported."""

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
    """Whether it reserves GPU memory as a pool when it starts: a setting, not its need, decides the peak."""
    own_options: ClassVar[Mapping[str, type]] = {}
    """What `options` of a profile may hold besides SHARED_OPTIONS, with the type of its value; float takes integers."""
    usual_start_s: ClassVar[float] = 10.0
    """How long a start takes, roughly: for the plan's estimate of the time."""
    ready_timeout_s: ClassVar[float] = 600.0
    """How long it may take to get ready where the profile says nothing: big weights take minutes to load."""

    cwd: Path | None = None
    """Where its process runs; None: in the program's own folder."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        self.unreachable: str | None = None
        """Why the last request could not reach the server, where that is more than nobody listening."""

    @property
    def base_url(self) -> str:
        return f"http://{self.config.host}:{self.config.port}"

    @property
    def model_name(self) -> str | None:
        """What a request calls the model; None lets the engine choose."""
        return self.config.model_name

    def check(self) -> None:
        """Look at what the start will need (model file, binary) before anything runs.

        Raises:
            EngineError: something is missing.
        """
        return

    @abstractmethod
    def argv(self) -> list[str]:
        """The command line that starts it, secrets not among it."""

    def env(self) -> dict[str, str]:
        """Environment variables on top of the driver's own."""
        return dict(self.config.env)

    def shown_argv(self) -> list[str]:
        """The command line as it may be written down: what follows `--api-key` and the like is hidden."""
        return shown_argv(self.argv())

    def shown_env(self) -> dict[str, str]:
        """The environment as it may be written down: values of names that look like secrets are hidden."""
        return shown_env(self.env())

    def on_gpu(self) -> bool:
        """Whether it is meant to run on the GPU, where there is one; `options.device = "cpu"` says no."""
        return self.started_here and self.config.options.get("device", "cuda") != "cpu"

    def model_shape(self) -> ModelShape | None:
        """The properties of its model that decide the GPU memory it needs. None: unknown."""
        return None

    def is_ready(self) -> bool:
        """Whether it takes requests now; anything but HTTP 200 of `/health` is "not yet"."""
        return self.answers("/health")

    def read_back(self) -> ReadBack:
        """Ask the running engine what it really runs."""
        return ReadBack()

    def request_fields(self, sampling: Mapping[str, Any], *, fixed_length: bool) -> dict[str, Any]:
        """All that a request carries beyond model, messages, length and stream, in this engine's dialect."""
        return {**self.request_extras(fixed_length=fixed_length), **self.sampling(sampling)}

    def sampling(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The profile's sampling in this engine's dialect; what it has no word for is sent, to be refused openly."""
        return dict(asked)

    def request_extras(self, *, fixed_length: bool) -> dict[str, Any]:
        """The request fields, in this engine's dialect, that put it in the mode that the profile asks for."""
        return {"ignore_eos": True} if fixed_length else {}

    def explain_exit(self, log_tail: str, code: int | None) -> str | None:
        """Explains an exit that only this engine has (`engines.process.exit_reason` has the rest). None: unknown."""
        return None

    def provenance(self) -> dict[str, Any] | None:
        """How the program was made (source, flags, compiler, hash), where that is known."""
        return None

    def read_log(self, told: ReadBack, log: Path) -> ReadBack:
        """What it told, and what its log says besides, for an engine that answers no question about that."""
        return told

    def log_findings(self, log: Path) -> dict[str, Any]:
        """What the engine's log says that belongs in the report."""
        return {}

    def answers(self, path: str) -> bool:
        """Whether a GET of a path has status 200, whatever its body: vLLM's `/health` has none."""
        answer = self._fetch(path)
        return answer is not None and answer.status_code == 200

    def get(self, path: str) -> dict[str, Any]:
        """GET a path of the running engine as a JSON object; empty where anything else, or nothing, is answered."""
        answer = self._fetch(path)
        try:
            told = answer.json() if answer is not None and answer.status_code == 200 else None
        except ValueError:
            told = None
        return told if isinstance(told, dict) else {}

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
        """All headers that a request to it needs: the API key, and those of the profile, which override.

        Raises:
            EngineError: the variable of one is not set.
        """
        try:
            return replacing(self.auth(), resolved(self.config.headers))
        except ValueError as error:
            raise EngineError(f"{self.config.name}: {error}") from None


def sha256_text(text: str | None) -> str | None:
    """Hash of a text such as a chat template; None stays None."""
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()
