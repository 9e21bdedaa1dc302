"""From what a profile says of an engine to an `Engine` that can be started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driver.errors import BenchError, ExitCode
from driver.profile.read import EngineSection, Profile, resolve_model
from driver.run.progress import Display
from engines import Engine, EngineConfig, EngineError, create
from engines.weights.convert import convert
from records.redaction import client_key


def make_engine(section: EngineSection, profile: Profile, display: Display) -> Engine:
    """The engine, with the files that its start needs looked at; a model `convert:DIR` is converted now.

    Raises:
        BenchError: something is missing, or can't be converted; or the key for the requests can't be sent.
    """
    try:
        # The load sends it to every engine, and would refuse it only once that is up.
        client_key()
    except ValueError as error:
        raise BenchError(str(error), ExitCode.USAGE) from None
    try:
        engine = create(engine_config(section, profile, model_path(section, display)))
        # Before anybody asks for the command line: that needs the binary.
        engine.check()
    except EngineError as error:
        raise BenchError(str(error)) from None
    return engine


def model_path(section: EngineSection, display: Display) -> Path | None:
    """The model's file or folder; `convert:DIR` is converted now, unless that was done before.

    Raises:
        EngineError: it can't be converted.
    """
    folder = conversion_source(section.model)
    if folder is None:
        return resolve_model(section.model) or _model_in(section.command)
    python = section.options.get("converter_python")
    return convert(folder, None, python=Path(python) if python else None, source=None, say=display.say).path


def _model_in(command: tuple[str, ...]) -> Path | None:
    """The model that a command line names: a GGUF file or a Hugging Face folder. Its hash shows the same weights."""
    for word in command[1:]:
        path = from_here(word.rpartition("=")[2])
        if (path.suffix == ".gguf" and path.is_file()) or (path / "config.json").is_file():
            return path
    return None


def conversion_source(model: str | None) -> Path | None:
    """The Hugging Face folder of a `convert:DIR`; None for any other model."""
    if model is None or not model.startswith("convert:"):
        return None
    return from_here(model.removeprefix("convert:"))


def engine_config(section: EngineSection, profile: Profile, model: Path | None) -> EngineConfig:
    """What the engines package needs to know, from what the profile says."""
    return EngineConfig(
        name=section.name,
        kind=section.kind,
        model=from_here(model) if model else None,
        model_name=section.model_name,
        port=section.port,
        slots=section.slots or 1,
        max_seq_len=section.max_seq_len or profile.max_seq_len,
        threads=section.threads,
        # A bare name is looked up on PATH, and "build" is a word.
        binary=str(from_here(section.binary)) if section.binary and "/" in section.binary else section.binary,
        args=section.args,
        env=section.env,
        url=section.url,
        command=section.command,
        options=section.options,
        thinking=profile.thinking,
        cache=profile.cache,
    )


def ready_timeout_s(engine: Engine, section: EngineSection) -> float:
    """Seconds that it may take to get ready: the profile's, else what its kind needs."""
    return section.ready_timeout_s or engine.ready_timeout_s


def request_extras(engine: Engine, section: EngineSection, profile: Profile, *, fixed_length: bool) -> dict[str, Any]:
    """The request fields beyond messages: the profile's sampling, the engine's dialect, the profile's last word."""
    sampling = profile.sampling.model_dump(exclude_none=True)
    fields = engine.request_fields(sampling, fixed_length=fixed_length)
    # The load client's own word for a fixed length; an engine with another one may refuse it. Null is left out.
    return {"ignore_eos": None, **fields, **section.request_extras}


def from_here(path: Path | str) -> Path:
    """A path of the profile is taken from where the command was typed; the engine itself runs elsewhere."""
    return Path(path).expanduser().absolute()
