"""Traces of real traffic: when requests came, and how long they and their answers were.

Four formats are read: Mooncake's JSONL (Qin et al., 2024: `timestamp` in ms, lengths in tokens, `hash_ids` of blocks of
512 tokens), BurstGPT's CSV (Wang et al., 2024), the CSV of the Azure LLM inference traces (Patel et al., 2024), and our
own records. Standard library only.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from workloads.problem_sets import TaskError

TraceFormat = Literal["auto", "mooncake", "burstgpt", "azure", "records"]
MOST_TOKENS = 10_000_000
"""A length beyond is damage."""

_BURSTGPT = ("Timestamp", "Request tokens", "Response tokens")
_AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of a trace. `at_s` counts from the first one; lengths are in tokens."""

    at_s: float
    input_tokens: int
    output_tokens: int
    hash_ids: tuple[int, ...] = ()
    """Names of the blocks that its prompt is made of; requests that begin with the same names share that prefix."""
    prompt_id: str | None = None
    """Of our own records: which prompt was asked."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The requests of a trace by time, and what was left out of it."""

    format: str
    arrivals: tuple[Arrival, ...]
    left_out: int
    """Rows without an answer: requests that failed where the trace was recorded."""

    @property
    def seconds(self) -> float:
        return self.arrivals[-1].at_s


def read_trace(path: Path, kind: str = "auto", first: int | None = None) -> Trace:
    """Read a trace; `first` keeps the first so many requests.

    Raises:
        TaskError: it cannot be read, has another format, or a line is damaged; the message names file and line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise TaskError(f"{path}: no such trace") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path}: can't read the trace: {error}") from None
    kind = _format(path, text) if kind == "auto" else kind
    rows = _READERS[kind](path, text)
    found, left_out = [], 0
    for number, arrival in rows:
        try:
            checked = arrival()
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            missing = f"no field {error}" if isinstance(error, KeyError) else str(error)
            raise TaskError(f"{path}:{number}: damaged {kind} line: {missing}") from None
        if checked is None:
            left_out += 1
        else:
            found.append(checked)
    if not found:
        raise TaskError(f"{path}: holds no request")
    found.sort(key=lambda one: one.at_s)  # stable; some traces are ordered by the ends of their requests
    begin = found[0].at_s
    kept = tuple(
        Arrival(one.at_s - begin, one.input_tokens, one.output_tokens, one.hash_ids, one.prompt_id)
        for one in found[:first]
    )
    return Trace(kind, kept, left_out)


_Row = tuple[int, Callable[[], Arrival | None]]
"""The number of a line, and what reads it; None where it is no request that was answered."""


def _format(path: Path, text: str) -> str:
    line = next((line for line in text.split("\n") if line.strip()), "")
    columns = [column.strip() for column in line.split(",")]
    for kind, names in (("burstgpt", _BURSTGPT), ("azure", _AZURE)):
        if set(names) <= set(columns):
            return kind
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if isinstance(row, dict) and "chunk_ns" in row:
        return "records"
    if isinstance(row, dict) and "timestamp" in row:
        return "mooncake"
    raise TaskError(
        f"{path}: no trace that is known: expected Mooncake's JSONL (timestamp, input_length, output_length), a"
        f" requests.jsonl, or CSV with {', '.join(_BURSTGPT)} or {', '.join(_AZURE)}"
    )


def _json_rows(text: str) -> Iterator[tuple[int, Callable[[], dict[str, Any]]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, lambda line=line: _object(line)  # type: ignore[misc]


def _object(line: str) -> dict[str, Any]:
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("a JSON object was expected")
    return row


def _mooncake(path: Path, text: str) -> Iterator[_Row]:
    def read(row: dict[str, Any]) -> Arrival | None:
        ids = row.get("hash_ids") or []
        if not isinstance(ids, list) or not all(isinstance(one, int) and not isinstance(one, bool) for one in ids):
            raise ValueError("hash_ids is a list of whole numbers")
        lengths = _tokens(row["input_length"], "input_length"), _tokens(row["output_length"], "output_length")
        return _answered(_seconds(row["timestamp"], "timestamp") / 1000, *lengths, hash_ids=tuple(ids))

    for number, row in _json_rows(text):
        yield number, lambda row=row: read(row())  # type: ignore[misc]


def _csv(path: Path, text: str, names: tuple[str, str, str], seconds: Callable[[Any, str], float]) -> Iterator[_Row]:
    def read(row: dict[str, Any]) -> Arrival | None:
        at, asked, answered = (row[name] for name in names)
        return _answered(seconds(at, names[0]), _tokens(asked, names[1]), _tokens(answered, names[2]))

    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    try:
        for row in reader:
            yield reader.line_num, lambda row=row: read(row)  # type: ignore[misc]
    except csv.Error as error:
        raise TaskError(f"{path}:{reader.line_num}: damaged CSV line: {error}") from None


def _burstgpt(path: Path, text: str) -> Iterator[_Row]:
    return _csv(path, text, _BURSTGPT, _seconds)


def _azure(path: Path, text: str) -> Iterator[_Row]:
    return _csv(path, text, _AZURE, _utc_seconds)


def _records(path: Path, text: str) -> Iterator[_Row]:
    """Measured requests that were answered. Each worker's times count from its own first request: clocks differ."""
    origins: dict[str, int] = {}

    def sent(row: dict[str, Any]) -> int | None:
        at: int | None = row["sent_ns"] if row.get("scheduled_ns") is None else row["scheduled_ns"]
        return at

    for _, parsed in _json_rows(text):
        try:
            row = parsed()
            if row["phase"] != "warmup" and (at := sent(row)) is not None:
                origins[row["worker"]] = min(origins.get(row["worker"], at), at)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # named below

    def read(row: dict[str, Any]) -> Arrival | None:
        at = sent(row)
        if row["phase"] == "warmup" or row["status"] != "ok" or at is None:
            return None
        if row["prompt_tokens"] is None or row["completion_tokens"] is None:
            raise ValueError("the engine reported no token counts, so its lengths are unknown")
        lengths = _tokens(row["prompt_tokens"], "prompt_tokens"), _tokens(row["completion_tokens"], "completion_tokens")
        at_s = (at - origins[row["worker"]]) / 1e9
        return _answered(at_s, *lengths, prompt_id=str(row["prompt_id"]))

    for number, parsed in _json_rows(text):
        yield number, lambda parsed=parsed: read(parsed())  # type: ignore[misc]


_READERS: dict[str, Callable[[Path, str], Iterator[_Row]]] = {
    "mooncake": _mooncake,
    "burstgpt": _burstgpt,
    "azure": _azure,
    "records": _records,
}


def _answered(at_s: float, asked: int, answered: int, **more: Any) -> Arrival | None:
    return Arrival(at_s, max(asked, 1), answered, **more) if answered else None


def _tokens(value: Any, name: str) -> int:
    number = float(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise ValueError(f"{name} is no number: {value!r}")
    if number != int(number) or not 0 <= number <= MOST_TOKENS:
        raise ValueError(f"{name} is no number of tokens: {value!r}")
    return int(number)


def _seconds(value: Any, name: str) -> float:
    number = float(value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
        raise ValueError(f"{name} is no time: {value!r}")
    return float(number)


def _utc_seconds(value: Any, name: str) -> float:
    """Azure's `2023-11-16 18:15:46.6805900`, whose fraction has seven digits; newer files have a zone."""
    try:
        whole, _, rest = str(value).strip().partition(".")
        digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
        at = datetime.fromisoformat(whole + rest[len(digits) :])
    except ValueError:
        raise ValueError(f"{name} is no time: {value!r}") from None
    return at.replace(tzinfo=at.tzinfo or UTC).timestamp() + float(f"0.{digits or 0}")
