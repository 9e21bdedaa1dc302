"""Creates an `Engine` from its section of the profile, and describes its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from driver.errors import BenchError, ExitCode
from driver.profile.read import EngineSection, Profile, resolve_model
from driver.run.progress import Display
from engines import Engine, EngineConfig, EngineError, create
from engines.files import sha256
from engines.probe import request_fields
from engines.weights.convert import convert, source_files, source_sha256
from records import JsonObject, read_json
from records.endpoint import CHAT
from records.redaction import client_key


def make_engine(section: EngineSection, profile: Profile, display: Display) -> Engine:
    """Create the engine and check the files that it needs. Converts a model `convert:DIR` first.

    Raises:
        BenchError: a file is missing, the model cannot be converted, or the API key is not valid in a header.
    """
    try:
        # The load sends the key to every engine, and would reject a bad key only after the engine's start.
        client_key()
    except ValueError as error:
        raise BenchError(str(error), ExitCode.USAGE) from None
    try:
        engine = create(engine_config(section, profile, model_path(section, display)))
        # Must come before the command line is built, which needs the binary.
        engine.check()
    except EngineError as error:
        raise BenchError(str(error)) from None
    return engine


def model_path(section: EngineSection, display: Display) -> Path | None:
    """The model's file or folder; `convert:DIR` is converted now, unless it was converted before.

    Raises:
        EngineError: the model can't be converted.
    """
    folder = conversion_source(section.model)
    if folder is None:
        return resolve_model(section.model) or _model_in(section.command)
    python = section.options.get("converter_python")
    return convert(folder, None, python=Path(python) if python else None, source=None, say=display.say).path


def _model_in(command: tuple[str, ...]) -> Path | None:
    """The model in a command line: a GGUF file or a Hugging Face folder."""
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
    """The configuration for the engines package, from the profile."""
    return EngineConfig(
        name=section.name,
        kind=section.kind,
        model=from_here(model) if model else None,
        model_name=section.model_name,
        port=section.port,
        slots=section.slots or 1,
        max_seq_len=section.max_seq_len or profile.max_seq_len,
        threads=section.threads,
        # A bare name is looked up on PATH, and "build" is a keyword.
        binary=str(from_here(section.binary)) if section.binary and "/" in section.binary else section.binary,
        args=section.args,
        env=section.env,
        url=section.url,
        command=section.command,
        options=section.options,
        headers=section.headers,
        thinking=profile.thinking,
        cache=profile.cache,
    )


def ready_timeout_s(engine: Engine, section: EngineSection) -> float:
    """Time limit in seconds until the engine is ready: the profile's, else that of its kind."""
    return section.ready_timeout_s or engine.ready_timeout_s


def request_extras(
    engine: Engine, section: EngineSection, profile: Profile, *, fixed_length: bool, endpoint: str = CHAT
) -> dict[str, Any]:
    """The request fields beside messages: the profile's sampling, the engine's dialect, and the profile's extras."""
    sampling = profile.sampling.model_dump(exclude_none=True)
    fields = request_fields(engine, sampling, section.request_extras, endpoint=endpoint, fixed_length=fixed_length)
    # The load client's own field for a fixed length. An engine with a different field may refuse it; null removes it.
    return {"ignore_eos": None, **fields}


def from_here(path: Path | str) -> Path:
    """Make a path of the profile absolute, relative to the user's folder; the engine runs in another folder."""
    return Path(path).expanduser().absolute()


_hashes: dict[tuple[tuple[str, int, int], ...], str] = {}
"""File hashes, cached per process by path, size and mtime."""


def describe_weights(model: Path | None) -> JsonObject | None:
    """File or folder, its size and SHA-256, and the hash of the source it was converted from (None: unknown).

    A folder's hash is that of the sorted names and contents of its weight, configuration and tokenizer files.
    """
    if model is None or not model.exists():
        return None
    files = [model] if model.is_file() else source_files(model)
    key = tuple((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)
    if key not in _hashes:
        _hashes[key] = sha256(model) if model.is_file() else source_sha256(files)
    return {
        "path": model.name,
        "bytes": sum(size for _, size, _ in key),
        "sha256": _hashes[key],
        "source_sha256": _converted_from(model),
    }


def _converted_from(model: Path) -> str | None:
    try:
        source = read_json(model.with_name(model.name + ".provenance.json")).get("source_sha256")
    except (OSError, ValueError):
        return None
    return str(source) if source else None
