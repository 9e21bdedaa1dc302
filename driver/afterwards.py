"""What only the driver knows of a capture once its load has ended, put down where the load put the rest."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from records import CellFolder, ErrorKind, Phase, Record, read_json, read_records, write_json

_DISTURBED = {ErrorKind.ABORTED, ErrorKind.CONNECT_FAILED, ErrorKind.SILENCE_TIMEOUT, ErrorKind.CANCELLED}


def mark_engine_gone(folder: CellFolder) -> int:
    """Put down that the engine died under a load; returns how many requests ended with it."""
    changed = name_cut_requests(folder)
    if folder.requests.exists() and (changed or not folder.complete):
        # Also where nothing was in flight: what the load did not send is missing.
        _close(folder, list(read_records(folder.requests)), complete=False, reason="the engine died")
    return changed


def name_cut_requests(folder: CellFolder) -> int:
    """Name the true cause of the failures at the end of a capture that the engine's end has cut; returns how many.

    Only the run of disturbed records at the end is renamed: an earlier failure had another cause. A driver that was
    killed took its engine along and could not put this down, so it is done before a cell goes on, too.
    """
    if not folder.requests.exists():
        return 0
    records = list(read_records(folder.requests))
    changed = 0
    for record in sorted(records, key=lambda record: record.end_ns, reverse=True):
        if record.ok or (record.error or {}).get("kind") not in _DISTURBED:
            break
        record.error = {"kind": ErrorKind.ENGINE_GONE, "message": f"the engine ended; seen as: {record.error}"}
        changed += 1
    if changed:
        rewrite(folder.requests, records)
    return changed


def mark_complete(folder: CellFolder) -> None:
    """A load that was killed between its last record and the note of its end had nothing left to do."""
    _close(folder, list(read_records(folder.requests)), complete=True, reason=None)


def rewrite(path: Path, records: Iterable[Record]) -> None:
    """Replace a capture's records, whole or not at all."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="ascii") as out:
        out.writelines(record.to_json_line() for record in records)
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)


def _close(folder: CellFolder, records: list[Record], *, complete: bool, reason: str | None) -> None:
    if not folder.scenario.exists():
        return
    counts = {phase.value: sum(record.phase == phase for record in records) for phase in Phase}
    measured = [record for record in records if record.measured]
    kinds = [str(record.error["kind"]) for record in measured if record.error]
    scenario = read_json(folder.scenario)
    scenario["counts"] = {
        **counts,
        "ok": sum(record.ok for record in measured),
        "error": sum(not record.ok for record in measured),
        "errors_by_kind": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
    }
    write_json(folder.scenario, {**scenario, "complete": complete, "incomplete_reason": reason})
