"""Fetches the public problem sets into local JSONL, once; every later stage reads only that (`workloads`).

`datasets` does the loading, at the pinned revisions, and is imported only when something is loaded.
"""

from __future__ import annotations

import hashlib
import json
import logging
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from records import write_json, write_text
from workloads import DATA_SETS
from workloads.problem_sets import DataSet, Source, TaskError, check, default_data_dir, fetch_note

Row = dict[str, Any]
Load = Callable[[Source, str | None], Iterable[Row]]
"""Loads the rows of one config of a source; raises anything where it can't."""


@dataclass(frozen=True, slots=True)
class FetchResult:
    """A local copy: where it is, what it holds, and what it was taken from (`revision` None: not pinned or a file)."""

    path: Path
    rows: int
    sha256: str
    revision: str | None
    source: str
    fetched: bool
    """False where a good copy was there already."""


def fetch(
    task: str,
    data_dir: Path | None = None,
    *,
    source_file: Path | None = None,
    force: bool = False,
    load: Load | None = None,
) -> FetchResult:
    """Bring a set to `data_dir`/<task>.jsonl, checked, and note its hash beside it.

    Args:
        task: one of `workloads.DATA_SETS`.
        data_dir: default `workloads.default_data_dir()`.
        source_file: a local copy to import (JSONL, JSON, CSV or Parquet) instead of the hub.
        force: fetch also where a good copy is there already.
        load: how a source is loaded; default is `datasets.load_dataset`.

    Raises:
        TaskError: no such set, no source can be had or none holds the right problems; one line.
    """
    if task not in DATA_SETS:
        raise TaskError(f"{task}: nothing to fetch; there are {', '.join(DATA_SETS)} (all else is made or a file)")
    data_set = DATA_SETS[task]
    path = (data_dir or default_data_dir()) / f"{task}.jsonl"
    if source_file is not None:
        return _keep(path, data_set, _imported(data_set, source_file), None, str(source_file))
    if not force and (present := _present(path)):
        return present
    problems = []
    for source in data_set.sources:
        try:
            rows = [row for config in source.configs for row in (load or _from_hub)(source, config)]
        except Exception as error:  # noqa: BLE001, RUF100 (datasets lets through whatever its many back ends raise)
            problems.append(f"{source.repo}: {_one_line(error)}")
            continue
        try:
            _check(data_set, rows, source.repo)
        except TaskError as error:
            problems.append(str(error))
            continue
        return _keep(path, data_set, rows, source.revision, source.repo)
    raise TaskError(
        f"{task} can't be fetched ({'; '.join(problems)}). Without network, place a JSONL copy as {path}, or"
        f" import one: enginebench fetch {task} --from FILE"
    )


def _from_hub(source: Source, config: str | None) -> Iterable[Row]:
    import datasets

    _require_network()
    with _quiet():
        rows: Iterable[Row] = datasets.load_dataset(source.repo, config, split=source.split, revision=source.revision)
    return rows


def _require_network() -> None:
    """Fail at once where the hub's name can't be resolved; its client would retry for half a minute a source.

    Raises:
        ConnectionError: there is no way to the hub.
    """
    from huggingface_hub import constants

    if getproxies():
        return  # then the proxy resolves names
    try:
        socket.getaddrinfo(urlsplit(constants.ENDPOINT).hostname, 443)
    except OSError as error:
        raise ConnectionError(f"no network ({error.strerror or error})") from None


def _imported(data_set: DataSet, file: Path) -> list[Row]:
    """The rows of a local copy.

    Raises:
        TaskError: there is none, or it is not this set.
    """
    if not file.is_file():
        raise TaskError(f"{file}: no such file to import {data_set.name} from")
    import datasets

    builder = {".parquet": "parquet", ".csv": "csv"}.get(file.suffix, "json")
    with tempfile.TemporaryDirectory() as cache, _quiet():
        try:
            rows = list(datasets.load_dataset(builder, data_files=str(file), split="train", cache_dir=cache))
        except Exception as error:  # noqa: BLE001, RUF100
            raise TaskError(f"{file}: can't be read as {builder}: {_one_line(error)}") from None
    _check(data_set, rows, str(file))
    return rows


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' logs and bars from saying at length what our one line says."""
    import datasets

    datasets.disable_progress_bars()
    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _check(data_set: DataSet, rows: list[Row], where: str) -> None:
    check(data_set, [data_set.problem(row, i, f"{where}, row {i + 1}") for i, row in enumerate(rows)], where)


def _keep(path: Path, data_set: DataSet, rows: list[Row], revision: str | None, source: str) -> FetchResult:
    """Write the copy, then its note; a reader sees the old copy or the whole new one."""
    content = "".join(json.dumps(_kept(data_set, row)) + "\n" for row in rows)
    result = FetchResult(path, len(rows), hashlib.sha256(content.encode()).hexdigest(), revision, source, fetched=True)
    note = path.with_suffix(".fetch.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        note.unlink(missing_ok=True)  # an old note would contradict the new copy
        write_text(path, content)
        write_json(note, {key: value for key, value in asdict(result).items() if key not in ("path", "fetched")})
    except OSError as error:
        raise TaskError(f"{path}: {data_set.name} can't be written: {error.strerror or error}") from None
    return result


def _kept(data_set: DataSet, row: Row) -> Row:
    """The columns that are read, under the set's own names."""
    return {name: row[name] for name in data_set.columns if row.get(name) is not None}


def _present(path: Path) -> FetchResult | None:
    """The copy that an earlier fetch left, if it is still what its note says."""
    note = fetch_note(path)
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
    if note.get("sha256") != digest:
        return None
    return FetchResult(path, note["rows"], digest, note["revision"], note["source"], fetched=False)


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
