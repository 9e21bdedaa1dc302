"""Adds to a capture what only the driver knows: requests that ended because the engine died."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from records import CellFolder, ErrorKind, JsonObject, Phase, Record, read_json, read_records, write_json
from records.files import replacing

_CUT = frozenset({ErrorKind.ABORTED, ErrorKind.CONNECT_FAILED, ErrorKind.CANCELLED})
"""How a load sees that the process which it talks to has ended."""
_GONE_SILENT = _CUT | {ErrorKind.SILENCE_TIMEOUT}
"""With a host that is gone nothing ends. A server that hangs looks the same: this needs the evidence of its death."""


def mark_engine_gone(folder: CellFolder) -> int:
    """Put down that the engine died under a load; returns how many requests ended with it."""
    changed = _name(folder, _GONE_SILENT)
    if folder.requests.exists() and (changed or not folder.complete):
        # Also where nothing was in flight: what the load did not send is missing.
        _close(folder, list(read_records(folder.requests)), complete=False, reason="the engine died")
    return changed


def name_cut_requests(folder: CellFolder, earlier: Iterable[JsonObject]) -> int:
    """Put down, before a cell goes on, what a driver that was killed could not: it took its engine along.

    An engine that was stopped as asked has cut nothing, and what failed before was its own doing.

    Args:
        folder: the cell's.
        earlier: engine.json of the round's earlier engine processes; one without a `stop_reason` ended with its driver.
    """
    return _name(folder, _CUT) if any(life.get("stop_reason") is None for life in earlier) else 0


def _name(folder: CellFolder, kinds: frozenset[ErrorKind]) -> int:
    """Name the true cause of the failures at the end of a capture that the engine's end has cut; returns how many.

    Only the run of disturbed records at the end is renamed: an earlier failure had another cause.
    """
    if not folder.requests.exists():
        return 0
    records = list(read_records(folder.requests))
    changed = 0
    for record in sorted(records, key=lambda record: record.end_ns, reverse=True):
        if record.ok or (record.error or {}).get("kind") not in kinds:
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
    with replacing(path) as out:
        out.writelines(record.to_json_line() for record in records)


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
        "error": sum(record.failed for record in measured),
        "cancelled": sum(record.status == "cancelled" for record in measured),
        "errors_by_kind": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
    }
    write_json(folder.scenario, {**scenario, "complete": complete, "incomplete_reason": reason})
