"""Reading a run's folder: the manifest, each life of each engine, and the captures of its cells, one cell at a time.

A capture of 10,000 requests of 500 chunks is read in about a second and held as a few arrays; nothing here keeps
more than the cell that is being looked at.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd
from numpy.typing import NDArray

from records import CellFolder, JsonObject, Phase, RoundFolder, RunFolder, read_json

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NOT_THE_ENGINES_ANSWER = frozenset({"cancelled", "engine_gone", "connect_failed"})
"""Errors that a resumed quality cell asks again; superseded by the later record where there is one."""


@dataclass(slots=True)
class Capture:
    """One cell of one round, as columns.

    `requests` has one row a record in file order. Its times are milliseconds since the worker's own first send
    (`origins`, monotonic ns), since clocks of different hosts are never compared; NaN is "not known". The chunks of
    row i are `chunk_ns[offsets[i]:offsets[i + 1]]`; `chunk_tokens` is -1 where the engine did not tell.
    """

    engine: str
    cell: str
    round: int
    scenario: JsonObject
    requests: pd.DataFrame
    chunk_ns: Ints
    chunk_tokens: NDArray[np.int32]
    offsets: Ints
    texts: list[str]
    reasonings: list[str]
    origins: dict[str, int]

    @property
    def asked(self) -> JsonObject:
        return self.scenario.get("asked") or {}

    @property
    def measured(self) -> pd.DataFrame:
        """The measured requests (phases measure and drain) that count: warm-up and superseded attempts are out."""
        return self.requests[self.requests["measured"]]

    def asked_span_ns(self) -> tuple[int | None, int | None]:
        """First send and last end of the measured requests on the monotonic clock; None where nothing was sent.

        Only of use on the host of the driver: with workers elsewhere their clocks are other clocks.
        """
        measured = self.measured[self.measured["sent_ms"].notna()]
        if measured.empty:
            return None, None
        origin = measured["worker"].map(self.origins)
        start = (origin + (measured["sent_ms"] * 1e6).astype(np.int64)).min()
        end = (origin + (measured["end_ms"] * 1e6).astype(np.int64)).max()
        return int(start), int(end)

    def drop_chunks(self) -> None:
        """Free the bulk of the memory, once the figures have been taken."""
        self.chunk_ns = np.empty(0, np.int64)
        self.chunk_tokens = np.empty(0, np.int32)


@dataclass(slots=True)
class Round:
    """One life of an engine: what it was and where its captures lie."""

    folder: RoundFolder
    state: JsonObject
    """engine.json; empty where there is none."""
    label: str = ""
    """What the engine is called in the comparison; its own name unless two runs are compared."""

    @property
    def engine(self) -> str:
        return self.label or self.folder.engine

    @property
    def number(self) -> int:
        return self.folder.number

    def gpu_rows(self) -> list[JsonObject]:
        """The GPU meter's samples, empty where nothing was measured."""
        try:
            lines = self.folder.gpu.read_bytes().splitlines()
        except OSError:
            return []
        rows = []
        for line in lines:
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue  # a line cut by a kill
            if isinstance(row, dict):
                rows.append(row)
        return rows


@dataclass(slots=True)
class Run:
    """A run's folder, opened: small things read, captures left on disk until `captures` is asked for them."""

    folder: RunFolder
    manifest: JsonObject
    engines: list[str]
    """The baseline first."""
    rounds: dict[str, list[Round]] = field(default_factory=dict)
    cells: list[str] = field(default_factory=list)
    """In the profile's order, then any others by name."""

    @property
    def profile(self) -> JsonObject:
        return self.manifest.get("profile") or {}

    @property
    def baseline(self) -> str:
        return self.engines[0]

    def cell_profile(self, cell: str) -> JsonObject:
        """The profile's section of a cell; empty where it has none."""
        return next((section for section in profile_cells(self.profile) if cell_name(section) == cell), {})

    def captures(self, cell: str, engine: str) -> Iterator[tuple[Round, Capture]]:
        """Read one engine's captures of a cell, round by round; a round without any is left out.

        Raises:
            ValueError: a line that is not the last cannot be read; the message names file and line.
        """
        for life in self.rounds.get(engine, []):
            folder = life.folder.cell(cell)
            if folder.requests.exists():
                yield life, load_capture(folder, engine, life.number, resumable=self.asks_all(cell))

    def asks_all(self, cell: str) -> bool:
        """Whether the cell asks every prompt of its workload once (for each sample), and so can be resumed."""
        section = self.cell_profile(cell)
        return bool(section) and not section.get("requests") and not section.get("duration_s")


def profile_cells(profile: JsonObject) -> list[JsonObject]:
    """The cells that a resolved profile asks for."""
    return profile.get("cells") or profile.get("scenarios") or []


def cell_name(section: JsonObject) -> str:
    """`<scenario>.<workload>` unless the profile names the cell."""
    return section.get("name") or f"{section.get('scenario')}.{Path(str(section.get('workload'))).stem}"


def load_run(folder: RunFolder) -> Run:
    """Open a run's folder.

    Raises:
        ValueError: there is no manifest, it cannot be read, or no engine has left anything; one line.
    """
    try:
        manifest = read_json(folder.manifest)
    except FileNotFoundError:
        raise ValueError(f"{folder.manifest}: no such file; is this the folder of a run?") from None
    profile = manifest.get("profile") or {}
    named = [str(engine["name"]) for engine in profile.get("engines") or []]
    if not named:
        named = sorted(p.name for p in folder.path.iterdir() if p.is_dir() and any(p.glob("r*")))
    if not named:
        raise ValueError(f"{folder.path}: no engine has left captures there")
    baseline = profile.get("baseline") or named[0]
    engines = [baseline, *(name for name in named if name != baseline)]
    run = Run(folder, manifest, engines)
    found: set[str] = set()
    for engine in engines:
        run.rounds[engine] = [Round(life, _state(life), engine) for life in folder.rounds(engine)]
        for life in run.rounds[engine]:
            found.update(cell.name for cell in life.folder.cells() if cell.requests.exists())
    asked = [cell_name(section) for section in profile_cells(profile)]
    run.cells = [name for name in asked if name in found] + sorted(found.difference(asked))
    return run


def _state(life: RoundFolder) -> JsonObject:
    try:
        return read_json(life.engine_json)
    except FileNotFoundError:
        return {}


def read_lines(path: Path) -> Iterator[JsonObject]:
    """`records.read_json_lines` with orjson: a torn last line is skipped, another unreadable one is an error.

    Raises:
        ValueError: naming file and line.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.isspace():
                continue
            try:
                value = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                if not line.endswith(b"\n"):
                    return
                raise ValueError(f"{path}:{number}: {error}") from None
            if not isinstance(value, dict):
                raise ValueError(f"{path}:{number}: a JSON object was expected")
            yield value


_PLAIN = (
    *("id", "worker", "user", "seq", "attempt", "workload", "prompt_id", "prompt_sha256", "sample", "phase"),
    *("prompt_tokens", "cached_tokens", "completion_tokens", "max_tokens", "token_source", "chunk_token_source"),
    *("finish_reason", "done", "status", "http_status", "system_fingerprint"),
)
_TIMES = ("scheduled_ns", "sent_ns", "end_ns", "first_token_ns", "first_answer_ns", "last_token_ns")
_TIMINGS = ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "cache_n", "queue_ms")
MESSAGE_CHARS = 500
"""Of an error's message, which may hold a whole page of a proxy's."""
_NUMBERS = ("prompt_tokens", "cached_tokens", "completion_tokens", "max_tokens")


def load_capture(folder: CellFolder, engine: str, number: int, *, resumable: bool = False) -> Capture:
    """Read `requests.jsonl` and `scenario.json` of one cell.

    Where the cell is `resumable`, requests that were cut off and asked again later are superseded by the later ones. A
    cell with a number of requests or a duration starts again as a whole, and may go round its prompts.

    Raises:
        ValueError: a line that is not the last cannot be read, or is no record; the message names the file.
    """
    columns: dict[str, list[Any]] = {name: [] for name in (*_PLAIN, *_TIMES, *(f"server_{key}" for key in _TIMINGS))}
    error_kinds: list[str | None] = []
    error_messages: list[str | None] = []
    context_errors: list[bool] = []
    connects: list[float] = []
    texts: list[str] = []
    reasonings: list[str] = []
    stamps, tokens, counts = array("q"), array("i"), array("q", [0])
    try:
        for row in read_lines(folder.requests):
            for name in _PLAIN:
                columns[name].append(row.get(name))
            for name in _TIMES:
                columns[name].append(row.get(name))
            timings = row.get("server_timings") or {}
            for key in _TIMINGS:
                columns[f"server_{key}"].append(_number(timings.get(key)))
            error = row.get("error") or {}
            error_kinds.append(error.get("kind"))
            error_messages.append(str(error.get("message", ""))[:MESSAGE_CHARS] if error else None)
            context_errors.append("exceed_context" in str(error.get("message", "")))
            connect = row.get("connect_ns")
            connects.append(np.nan if connect is None else connect / 1e6)
            texts.append(row["text"])
            reasonings.append(row["reasoning"])
            chunks = row["chunk_ns"]
            stamps.extend(array("q", chunks))
            known = row.get("chunk_tokens")
            tokens.extend(array("i", known if known is not None and len(known) == len(chunks) else [-1] * len(chunks)))
            counts.append(len(chunks))
    except (KeyError, TypeError, OverflowError, AttributeError) as problem:
        raise ValueError(f"{folder.requests}: record {len(counts)}: not a record: {problem}") from None
    scenario = _scenario(folder)
    frame = pd.DataFrame({name: columns[name] for name in _PLAIN})
    origins = _origins(columns["worker"], columns["sent_ns"], columns["end_ns"])
    for name in _TIMES:
        frame[name.replace("_ns", "_ms")] = _relative_ms(columns[name], columns["worker"], origins)
    for name in _NUMBERS:
        frame[name] = pd.to_numeric(frame[name], errors="coerce").astype(float)
    for key in _TIMINGS:
        frame[f"server_{key}"] = np.array(columns[f"server_{key}"], dtype=float)
    frame["error_kind"] = pd.Series(error_kinds, dtype=object)
    frame["error_message"] = pd.Series(error_messages, dtype=object)
    frame["context_error"] = context_errors
    frame["connect_ms"] = connects
    offsets = np.cumsum(np.frombuffer(counts, dtype=np.int64))
    frame["chunks"] = np.diff(offsets)
    frame["chars"] = [len(text) + len(thought) for text, thought in zip(texts, reasonings, strict=True)]
    frame["thought"] = [bool(thought.strip()) or _thinks(text) for text, thought in zip(texts, reasonings, strict=True)]
    frame["ok"] = frame["status"] == "ok"
    frame["measured"] = (frame["phase"] != Phase.WARMUP.value) & ~_superseded(frame, resumable)
    return Capture(
        engine=engine,
        cell=folder.name,
        round=number,
        scenario=scenario,
        requests=frame,
        chunk_ns=np.frombuffer(stamps, dtype=np.int64),
        chunk_tokens=np.frombuffer(tokens, dtype=np.int32),
        offsets=offsets,
        texts=texts,
        reasonings=reasonings,
        origins=origins,
    )


def _thinks(text: str) -> bool:
    """Whether the text begins with a think block that has something in it.

    An empty block is how some templates turn thinking off; others open the block themselves, so that only its end is
    in the answer.
    """
    before, tag, rest = text.partition("<think>")
    if not tag:
        thought, end, _ = text.partition("</think>")
        return bool(end and thought.strip())
    return bool(rest.partition("</think>")[0].strip()) and not before.strip()


def _scenario(folder: CellFolder) -> JsonObject:
    try:
        return read_json(folder.scenario)
    except (OSError, ValueError):
        return {}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else np.nan


def _origins(workers: list[str], sent: list[int | None], ended: list[int]) -> dict[str, int]:
    """The first send of each worker (its first end where it never sent)."""
    origins: dict[str, int] = {}
    for worker, sent_ns, end_ns in zip(workers, sent, ended, strict=True):
        at = end_ns if sent_ns is None else sent_ns
        origins[worker] = min(origins.get(worker, at), at)
    return origins


def _relative_ms(stamps: list[int | None], workers: list[str], origins: dict[str, int]) -> Floats:
    # Subtracted as integers: a float of monotonic ns loses digits after 104 days of uptime.
    return np.array(
        [
            np.nan if stamp is None else (stamp - origins[worker]) / 1e6
            for stamp, worker in zip(stamps, workers, strict=True)
        ],
        dtype=float,
    )


def _superseded(frame: pd.DataFrame, resumable: bool) -> pd.Series[bool]:
    """Requests cut by the client's or the engine's end and asked again later under the same prompt and sample."""
    cut = frame["error_kind"].isin(NOT_THE_ENGINES_ANSWER) & (frame["phase"] != Phase.WARMUP.value)
    if not resumable or not cut.any():
        return cut & False
    keys = frame[["prompt_id", "sample"]].assign(warmup=frame["phase"] == Phase.WARMUP.value)
    return cut & keys.duplicated(keep="last")
