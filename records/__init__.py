"""The contract between the stages: one record a request, the closed list of errors, and a run's folder.

The standard library and orjson only: the load process imports this and must start in a second. Every stage hands over
through the files described here and through nothing else, so that each can be run again alone on an old run.

All times are `time.monotonic_ns()` integers of the client that sent the request; clocks of different hosts are never
compared. A value that is not known is `None` (JSON null), never 0.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

import orjson

SCHEMA_VERSION = 1

JsonObject = dict[str, Any]


class Phase(StrEnum):
    """Where in a cell a request belongs. `measure` and `drain` count; `drain` ended after the steady window."""

    WARMUP = "warmup"
    MEASURE = "measure"
    DRAIN = "drain"


class ErrorKind(StrEnum):
    """The closed list of what can go wrong with a request. Whatever is not ok is exactly one of these."""

    CONNECT_FAILED = "connect_failed"
    """No connection could be opened (refused, unreachable, TLS, name lookup) before its deadline."""
    HTTP_STATUS = "http_status"
    """A status other than 200 that no other kind names; redirects are here, since they are never followed."""
    RATE_LIMITED = "rate_limited"
    """HTTP 429."""
    BUSY = "busy"
    """HTTP 503: the engine is full or still loading."""
    IN_BAND_ERROR = "in_band_error"
    """An error event inside an HTTP 200 stream."""
    ABORTED = "aborted"
    """The connection ended in the middle: reset, or closed before the body's framing was complete."""
    SILENCE_TIMEOUT = "silence_timeout"
    """Nothing arrived for longer than the silence deadline (the wait for the first byte included)."""
    TOTAL_TIMEOUT = "total_timeout"
    """The request's own deadline passed."""
    BAD_FRAME = "bad_frame"
    """HTTP or chunk framing that cannot be parsed, or a body over the size limit."""
    BAD_JSON = "bad_json"
    """A data event that is neither `[DONE]` nor a JSON object."""
    NO_FINISH_REASON = "no_finish_reason"
    """A clean end without a finish_reason that the API defines: the engine dropped the stream."""
    EMPTY = "empty"
    """A clean end without a single character of text or reasoning."""
    ENCODING = "encoding"
    """A compressed body although identity was asked, or text that is not UTF-8."""
    USAGE_CONTRADICTS = "usage_contradicts"
    """Usage that the stream itself disproves, such as no completion tokens for chunks that carried text."""
    ENGINE_GONE = "engine_gone"
    """The engine's process ended while the request was in flight (set by the driver, which sees the process)."""
    CANCELLED = "cancelled"
    """The client was stopped before the request ended."""


ASKED_AGAIN = frozenset({ErrorKind.CANCELLED, ErrorKind.ENGINE_GONE, ErrorKind.CONNECT_FAILED})
"""What is no answer of the engine: a resumed quality cell asks these again, and the later record supersedes them."""

FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
"""The finish reasons that the API defines. Any other value, and null, is `no_finish_reason`."""


@dataclass(slots=True)
class Record:
    """One request, as it is kept in `requests.jsonl`. Units are in the field names; see docs/methodology.md."""

    id: str
    engine: str
    cell: str
    round: int
    worker: str
    user: int
    seq: int
    attempt: int
    workload: str
    prompt_id: str
    prompt_sha256: str
    sample: int
    phase: str
    connect_ns: int | None
    """Duration of the connect where one was made for this request; null on a connection kept alive."""
    scheduled_ns: int | None
    """When an open loop meant to send it; null in a closed loop."""
    sent_ns: int | None
    """Just before the first byte went out on an open connection; null where none went out."""
    end_ns: int
    first_token_ns: int | None = None
    first_answer_ns: int | None = None
    last_token_ns: int | None = None
    chunk_ns: list[int] = field(default_factory=list)
    chunk_chars: list[int] = field(default_factory=list)
    chunk_tokens: list[int] | None = None
    chunk_token_source: str | None = None
    text: str = ""
    reasoning: str = ""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    token_source: str | None = None
    max_tokens: int | None = None
    finish_reason: str | None = None
    done: bool = False
    status: str = "ok"
    error: JsonObject | None = None
    """{"kind": ErrorKind, "message": str} where status is "error"."""
    http_status: int | None = None
    server_timings: JsonObject | None = None
    system_fingerprint: str | None = None
    schema: int = SCHEMA_VERSION

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def measured(self) -> bool:
        return self.phase != Phase.WARMUP

    def to_dict(self) -> JsonObject:
        return asdict(self)

    def to_json_line(self) -> str:
        """The record as one line of ASCII JSON with its newline; U+2028 and lone surrogates survive as escapes."""
        # A shallow dict: asdict would deep-copy thousands of stamps.
        values = {name: getattr(self, name) for name in _FIELDS}
        if self.text.isascii() and self.reasoning.isascii():
            # A third of the time; a number of more than 64 bits, or half a surrogate pair elsewhere, it refuses.
            with contextlib.suppress(TypeError):
                line = orjson.dumps(values)
                if line.isascii():
                    return line.decode("ascii") + "\n"
        return json.dumps(values, separators=(",", ":")) + "\n"

    @classmethod
    def from_dict(cls, values: JsonObject) -> Self:
        """Build a record from parsed JSON; fields of a newer schema are ignored.

        Raises:
            TypeError: a required field is missing.
        """
        return cls(**{name: value for name, value in values.items() if name in _FIELD_SET})


_FIELDS = tuple(f.name for f in fields(Record))
_FIELD_SET = frozenset(_FIELDS)


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a `requests.jsonl`; a last line cut by a kill is skipped, a torn line elsewhere is an error.

    Raises:
        ValueError: a line that is not the last cannot be read; the message names file and line.
    """
    for number, values in read_json_lines(path):
        try:
            yield Record.from_dict(values)
        except TypeError as error:
            raise ValueError(f"{path}:{number}: not a record: {error}") from None


def read_json_lines(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """Yield (line number, object) for each line; an unparseable last line without newline is taken for a torn write.

    Raises:
        ValueError: another line is not a JSON object; the message names file and line.
    """
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                value = _loads(line)
                if not isinstance(value, dict):
                    raise ValueError(f"a JSON object was expected, not {type(value).__name__}")
            except ValueError as error:
                if not line.endswith(b"\n"):
                    return
                raise ValueError(f"{path}:{number}: {error}") from None
            yield number, value


def _loads(line: bytes) -> Any:
    """Parse a line; orjson refuses the halves of surrogate pairs and the infinite numbers that servers have sent."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line, parse_constant=lambda _: None)


def write_json(path: Path, value: Any) -> None:
    """Write JSON, whole or not at all (see `write_text`)."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 so that a reader sees the old file or the whole new one, also after a kill or a full disk.

    Raises:
        OSError: it can't be written; `filename` is the path.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(path)
    except OSError as error:
        # A full disk does not say where it is full.
        error.filename = str(path)
        raise
    finally:
        # On a read-only disk this fails too, and must not stand in for the reason.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def set_aside(path: Path) -> Path | None:
    """Keep a file of an earlier attempt under the next free `<stem>.partial-<k><suffix>`; None where there is none."""
    if not path.exists():
        return None
    k = 1
    while (aside := path.with_name(f"{path.stem}.partial-{k}{path.suffix}")).exists():
        k += 1
    path.rename(aside)
    return aside


def _kept(folder: Path, stem: str) -> list[JsonObject]:
    """The JSON files that were set aside, the earliest first."""
    found = folder.glob(f"{stem}.partial-*.json")
    return [read_json(path) for path in sorted(found, key=lambda path: (len(path.name), path.name))]


def read_json(path: Path) -> JsonObject:
    """Read one JSON object.

    Raises:
        ValueError: the file does not hold one; the message names it.
        OSError: it cannot be read.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: a JSON object was expected")
    return value


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""What engines, scenarios, workloads and runs may be called: their names become folder names."""


def workload_name(workload: str) -> str:
    """What a workload is called: a file by its name without `.jsonl`, any other as it is."""
    return workload.rpartition("/")[2].removesuffix(".jsonl")


def cell_name(scenario: str, workload: str, name: str | None = None) -> str:
    """What a cell and its folder are called: `<scenario>.<workload>` unless the profile names it."""
    return name or f"{scenario}.{workload_name(workload)}"


def section_name(section: Mapping[str, Any]) -> str:
    """What the cell of a resolved profile's section is called."""
    return cell_name(str(section.get("scenario")), str(section.get("workload")), section.get("name"))


@dataclass(frozen=True, slots=True)
class CellFolder:
    """`bench-out/<run>/<engine>/r<k>/<cell>/`: what one cell of one round left."""

    path: Path

    @property
    def requests(self) -> Path:
        return self.path / "requests.jsonl"

    @property
    def scenario(self) -> Path:
        return self.path / "scenario.json"

    @property
    def name(self) -> str:
        return self.path.name

    def earlier_scenarios(self) -> list[JsonObject]:
        """scenario.json of each load that began this capture and was cut before its end, the earliest first."""
        return _kept(self.path, "scenario")

    @property
    def complete(self) -> bool:
        """Whether the load ended as asked; an unreadable or missing scenario.json is "no"."""
        try:
            return read_json(self.scenario).get("complete") is True
        except (OSError, ValueError):
            return False

    def set_aside(self) -> Path | None:
        """Move a broken capture to the next free `requests.partial-<k>.jsonl`; its new path, None if there is none."""
        return set_aside(self.requests)


@dataclass(frozen=True, slots=True)
class RoundFolder:
    """`bench-out/<run>/<engine>/r<k>/`: one life of an engine."""

    path: Path
    engine: str
    number: int

    @property
    def engine_json(self) -> Path:
        return self.path / "engine.json"

    @property
    def server_log(self) -> Path:
        return self.path / "server.log"

    @property
    def gpu(self) -> Path:
        return self.path / "gpu.jsonl"

    def earlier_lives(self) -> list[JsonObject]:
        """engine.json of each life of this round that ended before all its cells were done, the earliest first."""
        return _kept(self.path, "engine")

    def cell(self, name: str) -> CellFolder:
        return CellFolder(self.path / name)

    def cells(self) -> list[CellFolder]:
        """The cells that have left anything, in name order."""
        if not self.path.is_dir():
            return []
        return [CellFolder(p) for p in sorted(self.path.iterdir()) if p.is_dir() and "." in p.name]


@dataclass(frozen=True, slots=True)
class RunFolder:
    """`bench-out/<run>/`: the only hand-over between stages."""

    path: Path

    @property
    def run_id(self) -> str:
        return self.path.name

    @property
    def manifest(self) -> Path:
        return self.path / "run.json"

    @property
    def workloads(self) -> Path:
        return self.path / "workloads"

    def workload(self, name: str) -> Path:
        return self.workloads / f"{name}.jsonl"

    def round(self, engine: str, number: int) -> RoundFolder:
        return RoundFolder(self.path / engine / f"r{number}", engine, number)

    def rounds(self, engine: str) -> list[RoundFolder]:
        """The rounds of an engine that have left anything, in order of their number."""
        found = []
        for path in (self.path / engine).glob("r*"):
            if path.is_dir() and path.name[1:].isdigit():
                found.append(RoundFolder(path, engine, int(path.name[1:])))
        return sorted(found, key=lambda folder: folder.number)

    def comparison(self, stamp: str, suffix: str) -> Path:
        return self.path / f"comparison-{stamp}.{suffix}"
