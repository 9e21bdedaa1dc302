"""Captures written by hand, in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from records import CellFolder, Record, write_json
from scoring.captures import Capture, load_capture

MS = 1_000_000


def request(
    sent_ms: float,
    end_ms: float,
    *,
    chunks_ms: Sequence[float] | None = None,
    tokens: int | None = None,
    chunk_tokens: list[int] | None = None,
    user: int = 0,
    worker: str = "w",
    phase: str = "measure",
    prompt_id: str = "p",
    scheduled_ms: float | None = None,
    text: str | None = None,
    **more: Any,
) -> Record:
    """One ok request; its chunks arrive at `chunks_ms`, by default one at the end."""
    stamps = [round(at * MS) for at in (chunks_ms if chunks_ms is not None else [end_ms])]
    text = "x" * len(stamps) if text is None else text
    record = Record(
        id=f"{worker}-{user}-{sent_ms}",
        engine="e",
        cell="single.x",
        round=1,
        worker=worker,
        user=user,
        seq=0,
        attempt=1,
        workload="x",
        prompt_id=prompt_id,
        prompt_sha256="0" * 64,
        sample=0,
        phase=phase,
        connect_ns=None,
        scheduled_ns=None if scheduled_ms is None else round(scheduled_ms * MS),
        sent_ns=round(sent_ms * MS),
        end_ns=round(end_ms * MS),
        first_token_ns=stamps[0] if stamps else None,
        first_answer_ns=stamps[0] if stamps else None,
        last_token_ns=stamps[-1] if stamps else None,
        chunk_ns=stamps,
        chunk_chars=[1] * len(stamps),
        chunk_tokens=chunk_tokens,
        text=text,
        completion_tokens=len(stamps) if tokens is None else tokens,
        finish_reason="stop",
        done=True,
    )
    for name, value in more.items():
        setattr(record, name, value)
    return record


def capture_of(tmp_path: Path, records: Sequence[Record], *, users: int | None = 1, **asked: Any) -> Capture:
    """Write the records as a cell and read them back."""
    folder = CellFolder(tmp_path / "single.x")
    folder.path.mkdir(exist_ok=True)
    folder.requests.write_text("".join(record.to_json_line() for record in records))
    write_json(folder.scenario, {"asked": {"users": users} | asked, "complete": True})
    return load_capture(folder, "e", 1)
