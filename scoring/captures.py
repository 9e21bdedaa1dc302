"""Reads captures: the records of one cell of one round as a few arrays.

A capture of 10,000 requests of 500 chunks is read in about a second.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from records import ASKED_AGAIN, SCHEMA_VERSION, CellFolder, JsonObject, Phase, Record, read_json, read_json_lines
from records.latency_definitions import Timing, has_gaps, in_order, known_tokens, timing, tokens_per_event
from records.thinking import holds_thought
from workloads import asked_id

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TOO_LONG = ("exceed_context", "maximum context length")
"""Error texts with which llama.cpp and vLLM refuse a prompt that does not fit the context."""


@dataclass(slots=True)
class Capture:
    """One cell of one round, as columns.

    `requests` has one row per record, in file order. Its times are milliseconds since the worker's own first send
    (`origins`, monotonic ns), because clocks of different hosts are never compared; NaN is unknown. Latencies are
    those of `records.latency_definitions`, also for failed requests. The chunks of row i are
    `chunk_ns[offsets[i]:offsets[i + 1]]`; `chunk_tokens` is -1 where the engine did not report it.
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
    tool_calls: dict[int, list[JsonObject]] = field(default_factory=dict)
    """The tool calls of each row that has any."""
    earlier: list[JsonObject] = field(default_factory=list)
    """scenario.json of each earlier load of the cell that was interrupted."""
    hooks: list[JsonObject] = field(default_factory=list)
    """Results of the profile's hooks (hooks.json)."""

    @property
    def ends_by_time(self) -> bool:
        """Whether the engine's speed decided how many requests there are, instead of a requested number."""
        return bool(self.asked.get("duration_s")) or self.asked.get("shape") == "capacity"

    @property
    def disturbed(self) -> bool:
        """Whether a hook (a profiler) ran beside the load: its speed is not compared."""
        return any(hook.get("hook") == "during_cell" for hook in self.hooks)

    @property
    def clients(self) -> list[JsonObject]:
        """The health figures (`client`) of each load process, where it lived to write them."""
        reports = [report for part in (*self.earlier, self.scenario) for report in (part, *(part.get("workers") or []))]
        return [report["client"] for report in reports if report.get("client")]

    @property
    def asked(self) -> JsonObject:
        return self.scenario.get("asked") or {}

    @property
    def measured(self) -> pd.DataFrame:
        """The measured requests (phases measure and drain) that count, without warm-up and superseded attempts."""
        return self.requests[self.requests["measured"]]

    def asked_span_ns(self) -> tuple[int | None, int | None]:
        """First send and last end of the measured requests on the monotonic clock; None where nothing was sent.

        Only valid where all workers run on the driver's host: other hosts have other clocks.
        """
        measured = self.measured[self.measured["sent_ms"].notna()]
        if measured.empty:
            return None, None
        origin = measured["worker"].map(self.origins)
        start = (origin + (measured["sent_ms"] * 1e6).astype(np.int64)).min()
        end = (origin + (measured["end_ms"] * 1e6).astype(np.int64)).max()
        return int(start), int(end)

    def chunk_tokens_known(self) -> NDArray[np.bool_]:
        """Which requests have chunk_tokens. Either all chunks of a request have them, or none."""
        if not len(self.chunk_tokens):
            return np.zeros(len(self.offsets) - 1, bool)
        firsts = np.minimum(self.offsets[:-1], len(self.chunk_tokens) - 1)
        return self.chunk_tokens[firsts] >= 0

    def drop_chunks(self) -> None:
        """Frees most of the memory; call it once the figures are computed."""
        self.chunk_ns = np.empty(0, np.int64)
        self.chunk_tokens = np.empty(0, np.int32)


_PLAIN = (
    *("id", "worker", "user", "seq", "attempt", "workload", "prompt_id", "prompt_sha256", "sample", "phase"),
    *("prompt_tokens", "cached_tokens", "completion_tokens", "max_tokens", "token_source", "chunk_token_source"),
    *("finish_reason", "done", "status", "http_status", "system_fingerprint", "conversation", "turn", "turns"),
)
_TIMES = ("scheduled_ns", "sent_ns", "end_ns", "first_token_ns", "first_answer_ns", "last_token_ns")
_TIMINGS = ("prompt_n", "prompt_ms", "predicted_n", "predicted_ms", "cache_n", "queue_ms")
MESSAGE_CHARS = 500
"""Length at which an error's message is cut: a proxy may send a whole HTML page."""
_LATENCIES = ("ttft_ms", "ttfa_ms", "tpot_ms", "e2e_ms", "ttft_scheduled_ms", "e2e_scheduled_ms")
_NUMBERS = ("prompt_tokens", "cached_tokens", "completion_tokens", "max_tokens", "turn", "turns")


def require_known_schema(path: Path, values: JsonObject) -> None:
    """Reject a file of a newer version of this program: its fields may mean something else.

    Raises:
        ValueError: the schema is newer; the message names the file.
    """
    schema = values.get("schema")
    if isinstance(schema, int) and schema > SCHEMA_VERSION:
        raise ValueError(f"{path}: written by a newer version (schema {schema}, {SCHEMA_VERSION} is known); update")


def load_capture(folder: CellFolder, engine: str, number: int, *, resumable: bool = False) -> Capture:
    """Read `requests.jsonl` and `scenario.json` of one cell.

    In a `resumable` cell, a request that was cut off is superseded by the later request for the same prompt. A cell
    with a number of requests or a duration always starts again from the beginning, and may ask a prompt repeatedly.

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
    tool_calls: dict[int, list[JsonObject]] = {}
    timings_of: list[Timing] = []
    other_chars: list[int] = []
    streamed: list[bool] = []
    token_events: list[bool] = []
    ordered: list[bool] = []
    stamps, tokens, counts = array("q"), array("i"), array("q", [0])
    try:
        for _, row in read_json_lines(folder.requests):
            require_known_schema(folder.requests, row)
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
            context_errors.append(any(words in str(error.get("message", "")) for words in TOO_LONG))
            connect = row.get("connect_ns")
            connects.append(np.nan if connect is None else connect / 1e6)
            texts.append(row["text"])
            reasonings.append(row["reasoning"])
            chunks = row["chunk_ns"]
            stamps.extend(array("q", chunks))
            record = Record.from_dict(row)
            timings_of.append(timing(record))
            if record.tool_calls:
                tool_calls[len(texts) - 1] = record.tool_calls
            calls = sum(len(text) for call in record.tool_calls for text in call.values())
            other_chars.append(len(record.refusal) + calls)
            ordered.append(in_order(record))
            streamed.append(has_gaps(record))
            token_events.append(tokens_per_event(record) is not None)
            known = known_tokens(record)
            tokens.extend(array("i", [-1] * len(chunks) if known is None else known))
            counts.append(len(chunks))
    except (KeyError, TypeError, OverflowError, AttributeError) as problem:
        raise ValueError(f"{folder.requests}: record {len(counts)}: not a record: {problem}") from None
    scenario = _scenario(folder)
    require_known_schema(folder.scenario, scenario)
    frame = pd.DataFrame({name: columns[name] for name in _PLAIN})
    origins = _origins(columns["worker"], columns["sent_ns"], columns["end_ns"])
    for name in _TIMES:
        frame[name.replace("_ns", "_ms")] = _relative_ms(columns[name], columns["worker"], origins)
    frame["asked_id"] = list(map(asked_id, columns["prompt_id"], columns["turn"]))
    for name in _NUMBERS:
        frame[name] = pd.to_numeric(frame[name], errors="coerce").astype(float)
    for key in _TIMINGS:
        frame[f"server_{key}"] = np.array(columns[f"server_{key}"], dtype=float)
    for name in _LATENCIES:
        frame[name] = np.array([getattr(values, name) for values in timings_of], dtype=float)
    frame["tpot_withheld"] = pd.Series([values.withheld for values in timings_of], dtype=object)
    frame["streamed"], frame["token_events"] = streamed, token_events
    frame["error_kind"] = pd.Series(error_kinds, dtype=object)
    frame["error_message"] = pd.Series(error_messages, dtype=object)
    frame["context_error"] = context_errors
    frame["connect_ms"] = connects
    offsets = np.cumsum(np.frombuffer(counts, dtype=np.int64))
    frame["chunks"] = np.diff(offsets)
    frame["in_order"] = ordered
    lengths = zip(texts, reasonings, other_chars, strict=True)
    frame["chars"] = [len(text) + len(thought) + more for text, thought, more in lengths]
    frame["thought"] = [holds_thought(text, thought) for text, thought in zip(texts, reasonings, strict=True)]
    frame["ok"] = frame["status"] == "ok"
    frame["failed"] = frame["status"] == "error"
    frame["cancelled"] = frame["status"] == "cancelled"
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
        tool_calls=tool_calls,
        earlier=folder.earlier_scenarios(),
        hooks=_hooks(folder),
    )


def _scenario(folder: CellFolder) -> JsonObject:
    try:
        return read_json(folder.scenario)
    except (OSError, ValueError):
        return {}


def _hooks(folder: CellFolder) -> list[JsonObject]:
    try:
        return list(read_json(folder.hooks)["hooks"])
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else np.nan


def _origins(workers: list[str], sent: list[int | None], ended: list[int]) -> dict[str, int]:
    """The first send of each worker, in monotonic ns (its first end if it never sent)."""
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
    """Which requests do not count because a resumed cell asked the same prompt and sample again later.

    These are requests that were cut off when the client or the engine ended, and good ones that were asked again
    because another sample of their prompt was missing.
    """
    cut = frame["error_kind"].isin(ASKED_AGAIN) & (frame["phase"] != Phase.WARMUP.value)
    if not resumable:
        return cut & False
    keys = frame[["prompt_id", "sample"]].assign(warmup=frame["phase"] == Phase.WARMUP.value)
    good = keys[frame["ok"] & ~keys["warmup"]].duplicated(keep="last").reindex(frame.index, fill_value=False)
    # A conversation that was cut begins again: of each, the last one that was held counts, and only as a whole.
    held = frame["conversation"].notna() & ~keys["warmup"]
    last = frame[held].groupby(["asked_id", "sample"])["conversation"].transform("last")
    begun_again = frame.loc[held, "conversation"].ne(last).reindex(frame.index, fill_value=False)
    return cut & keys.duplicated(keep="last") | good | begun_again
