"""Adds to a capture what only the driver knows: requests that ended because the engine died."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from records import CellFolder, ErrorKind, JsonObject, Phase, Record, read_json, read_records, write_json
from records.files import replacing

_CUT = frozenset({ErrorKind.ABORTED, ErrorKind.CONNECT_FAILED, ErrorKind.CANCELLED})
"""Error kinds of requests whose server process ended."""
_GONE_SILENT = _CUT | {ErrorKind.SILENCE_TIMEOUT}
"""Error kinds if the whole host is gone: then connections do not end. A hanging server looks the same, so use this only
with evidence that the server died."""


def mark_engine_gone(folder: CellFolder) -> int:
    """Record that the engine died during a load; returns the number of requests that ended with it."""
    changed = _name(folder, _GONE_SILENT)
    if folder.requests.exists() and (changed or not folder.complete):
        # The cell is also incomplete if nothing was in flight: the unsent requests are missing.
        _close(folder, list(read_records(folder.requests)), complete=False, reason="the engine died")
    return changed


def name_cut_requests(folder: CellFolder, earlier: Iterable[JsonObject]) -> int:
    """Before a cell is resumed, record which requests ended because a killed driver's engine ended with it.

    An engine that the driver stopped normally has cut no request, so its failures keep their own cause.

    Args:
        folder: the cell's folder.
        earlier: engine.json of the round's earlier engine processes; one without a `stop_reason` ended with its driver.
    """
    return _name(folder, _CUT) if any(state.get("stop_reason") is None for state in earlier) else 0


def _name(folder: CellFolder, kinds: frozenset[ErrorKind]) -> int:
    """Change the error of the last failures of a capture to `engine_gone`; returns how many.

    Only the unbroken sequence of failures at the end changes: an earlier failure had another cause.
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
    """Mark a cell complete whose load was killed after its last record but before it wrote its end."""
    _close(folder, list(read_records(folder.requests)), complete=True, reason=None)


def rewrite(path: Path, records: Iterable[Record]) -> None:
    """Replace a capture's records atomically."""
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
