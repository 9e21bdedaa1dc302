"""The history: the figures of many runs in one SQLite file, small enough to keep for years and to copy to another host.

One process writes at a time (WAL, busy timeout); readers are never blocked. Every change is one transaction, so a kill
or a full disk leaves the history unchanged.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path

from nightly.history.reader import GOOD, ORDER, Reader
from nightly.history.rows import WHOLE_RUN, EngineInfo, FigureRow, GateRow, ImportedRun, QualityRow, RunInfo
from nightly.history.run_import import own_comparisons, read_run
from nightly.history.schema import VERSION, HistoryError, copy_in_memory, insert, one_line
from records import JsonObject
from records.utc import utc_text

__all__ = [
    "VERSION",
    "WHOLE_RUN",
    "EngineInfo",
    "FigureRow",
    "GateRow",
    "History",
    "HistoryError",
    "ImportedRun",
    "QualityRow",
    "RunInfo",
    "own_comparisons",
    "read_run",
    "require_history",
]

_TABLES = ("run", "engine", "cell", "figure", "quality", "gate")

_DOOMED = f"""
SELECT run_id FROM (
    SELECT *, row_number() OVER (PARTITION BY profile ORDER BY {ORDER} DESC, run_id DESC) AS place,
    max(CASE WHEN {GOOD} THEN {ORDER} END) OVER (PARTITION BY profile) AS last_good FROM run) AS run
WHERE pinned_utc IS NULL AND status != 'running' AND {ORDER} IS NOT last_good
AND (place > COALESCE(:keep, place) OR created_utc < COALESCE(:before, '')) ORDER BY {ORDER}
"""  # noqa: S608  only constants

_REFRESHED = ("profile_sha256", "fingerprint", "status", "digest")
"""Columns that a later scoring of the same run may change."""


class History(Reader):
    """An open history, for reading and writing; see `Reader`."""

    def begin(self, run_id: str, created_utc: str, profile: str, kind: str, confirms: str | None = None) -> None:
        """Record that a run has started, so that a killed run can be detected later.

        A night is placed after all earlier nights, even if the clock was set back in between.

        Raises:
            HistoryError: the run is in the history already, or the history cannot be written.
        """
        with self._change() as db:
            if self.find(run_id) is not None:
                raise HistoryError(f"{self.path}: run {run_id} is there already")
            row = {"run_id": run_id, "created_utc": created_utc, "profile": profile, "kind": kind, "confirms": confirms}
            newest = db.execute(f"SELECT max({ORDER}) FROM run WHERE profile = ? AND kind = ?", (profile, kind))  # noqa: S608
            place = _after(newest.fetchone()[0], created_utc)
            insert(db, "run", [row | {"fingerprint": "{}", "status": "running", "place_utc": place}])

    def end(
        self, run_id: str, *, status: str | None = None, exit_code: int | None = None, note: str | None = None
    ) -> None:
        """Set how a run ended; arguments that are None change nothing."""
        with self._change() as db:
            db.execute(
                "UPDATE run SET status = COALESCE(?, status), exit_code = COALESCE(?, exit_code),"
                " note = COALESCE(?, note) WHERE run_id = ?",
                (status, exit_code, note, run_id),
            )

    def forget(self, run_id: str) -> None:
        """Remove a run with all its rows."""
        with self._change() as db:
            db.execute("DELETE FROM run WHERE run_id = ?", (run_id,))

    def mark_abandoned(self) -> list[str]:
        """Mark runs with status `running` as `partial` and return their ids. Needs the nightly lock."""
        with self._change() as db:
            abandoned = [
                row[0] for row in db.execute("SELECT run_id FROM run WHERE status = 'running' ORDER BY created_utc")
            ]
            db.execute(
                "UPDATE run SET status = 'partial', note = 'killed or crashed before its end' WHERE status = 'running'"
            )
        return abandoned

    def add(self, run: ImportedRun, *, requests_failed: bool = False) -> bool:
        """Import a run. A second import replaces an older scoring of the run; gates and pin stay.

        Returns:
            False if the history has exactly these figures already.
        """
        with self._change() as db:
            known = db.execute("SELECT digest, status FROM run WHERE run_id = ?", (run.run_id,)).fetchone()
            twin = db.execute("SELECT 1 FROM run WHERE digest = ? AND run_id != ?", (run.digest, run.run_id)).fetchone()
            if known == (run.digest, run.status) or twin:
                # A twin was merged from another history, under a different run id.
                return False
            for table in ("engine", "cell", "figure", "quality"):
                db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run.run_id,))  # noqa: S608  a constant
            insert(
                db, "run", [_run_columns(run)], update=_REFRESHED + (("kind", "confirms") if run.kind != "run" else ())
            )
            if requests_failed:
                db.execute("UPDATE run SET requests_failed = 1 WHERE run_id = ?", (run.run_id,))
            key = {"run_id": run.run_id}
            insert(db, "engine", [key | asdict(row) | {"setup": json.dumps(row.setup)} for row in run.engines])
            insert(db, "cell", [key | {"cell": cell, "load_sha256": load} for cell, load in run.cells.items()])
            insert(db, "figure", [key | asdict(row) for row in run.figures])
            insert(db, "quality", [key | asdict(row) | {"outcomes": _packed(row.outcomes)} for row in run.quality])
        return True

    def add_gates(self, run_id: str, gates: list[GateRow], exit_code: int) -> None:
        """Store a night's decisions and exit code, in one transaction."""
        with self._change() as db:
            db.execute("DELETE FROM gate WHERE run_id = ?", (run_id,))
            insert(db, "gate", [{"run_id": run_id} | asdict(gate) for gate in gates])
            db.execute("UPDATE run SET exit_code = ? WHERE run_id = ?", (exit_code, run_id))

    def pin(self, run_id: str, when_utc: str | None) -> None:
        """Pin a run as the baseline of its profile (the newest pin counts); with None, remove the pin.

        Raises:
            HistoryError: no such run, or not a complete one.
        """
        run = self.get(run_id)
        if when_utc is not None and run.status != "complete":
            raise HistoryError(f"{self.path}: run {run_id} is {run.status}; only a complete run can be pinned")
        with self._change() as db:
            db.execute("UPDATE run SET pinned_utc = ? WHERE run_id = ?", (when_utc, run_id))

    def prune(self, *, keep: int | None = None, older_than: datetime | None = None) -> list[str]:
        """Remove runs beyond the newest `keep` of each profile, or older than a date; never a pin or the last good run.

        Returns:
            The ids of the runs that were removed.
        """
        before = None if older_than is None else utc_text(older_than)
        with self._change() as db:
            doomed = [row[0] for row in db.execute(_DOOMED, {"keep": keep, "before": before})]
            db.executemany("DELETE FROM run WHERE run_id = ?", [(run_id,) for run_id in doomed])
        return doomed

    def merge(self, other: Path) -> tuple[list[str], list[str]]:
        """Copy the runs of another history that this one lacks; the other is only read.

        If both have different runs with the same id, the other's run is stored as `<id>.<begin of its digest>`.

        Returns:
            (ids that were added, those of them with a new name).
        """
        with one_line(other):
            source = copy_in_memory(other)
        try:
            with self._change() as db:
                return _take_over(source, db)
        finally:
            source.close()

    def same_figures(self, run_id: str, other_id: str) -> bool:
        """Whether two runs have the same figures to the last digit: then one is a copy of the other."""
        own, other = (
            {(f.engine, f.cell, f.metric, f.round): f.value for f in self.figures(each)} for each in (run_id, other_id)
        )
        shared = own.keys() & other.keys()
        return bool(shared) and all(own[key] == other[key] for key in shared)

    def nights_beyond(self, profile: str, keep: int) -> list[str]:
        """Ids of nights older than the newest `keep`, with their confirmations; not pins, not the last good night."""
        nights = self.runs(profile=profile, where="kind = 'nightly' AND status != 'running'")
        good = self.runs(profile=profile, good=True)
        staying = {run.run_id for run in nights[max(0, len(nights) - keep) :]} | {run.run_id for run in good[-1:]}
        staying |= {run.run_id for run in nights if run.pinned_utc}
        second = self.runs(profile=profile, where="kind = 'confirmation' AND status != 'running'")
        return [run.run_id for run in nights if run.run_id not in staying] + [
            run.run_id for run in second if run.confirms not in staying
        ]

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        self._kept.clear()
        with one_line(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                # SQLite may have rolled back by itself (a full disk).
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise


def require_history(path: Path) -> None:
    """Check that a file is a history that can be merged; it is only read.

    Raises:
        HistoryError: the file is not a history, or cannot be read.
    """
    with one_line(path):
        copy_in_memory(path).close()


def _run_columns(run: ImportedRun) -> JsonObject:
    names = ("run_id", "created_utc", "profile", "profile_sha256", "status", "kind", "confirms", "digest")
    return {name: getattr(run, name) for name in names} | {"fingerprint": json.dumps(run.fingerprint)}


def _packed(outcomes: Mapping[str, float] | None) -> str | None:
    return None if outcomes is None else json.dumps(outcomes, separators=(",", ":"))


def _after(newest: str | None, created_utc: str) -> str | None:
    """One second after the newest night, if the new night's clock is not later than it; else None."""
    if newest is None or newest < created_utc:
        return None
    return utc_text(datetime.fromisoformat(newest) + timedelta(seconds=1))


def _take_over(source: sqlite3.Connection, target: sqlite3.Connection) -> tuple[list[str], list[str]]:
    """Copy the runs that the target lacks; runs with equal content are the same. The caller holds the transaction."""
    names: dict[str, str] = {}
    for run_id, digest in source.execute(
        "SELECT run_id, digest FROM run WHERE status != 'running' ORDER BY created_utc"
    ):
        if digest and target.execute("SELECT 1 FROM run WHERE digest = ?", (digest,)).fetchone():
            continue
        mine = target.execute("SELECT digest FROM run WHERE run_id = ?", (run_id,)).fetchone()
        if mine is not None and (digest is None or mine[0] is None):
            # Without a digest on both sides (before version 2, or never finished) only the ids can be compared.
            continue
        names[run_id] = run_id if mine is None else f"{run_id}.{digest[:8]}"
    for run_id, name in names.items():
        for table in _TABLES:
            _copy(source, target, table, run_id, name, names)
    return list(names.values()), [name for run_id, name in names.items() if name != run_id]


def _copy(
    source: sqlite3.Connection, target: sqlite3.Connection, table: str, run_id: str, name: str, names: dict[str, str]
) -> None:
    cursor = source.execute(f"SELECT * FROM {table} WHERE run_id = ?", (run_id,))  # noqa: S608  a constant
    keys = [item[0] for item in cursor.description]
    rows = [dict(zip(keys, row, strict=True)) | {"run_id": name} for row in cursor]
    for row in rows:
        for reference in ("confirms", "baseline", "since"):
            if row.get(reference) in names:
                row[reference] = names[row[reference]]
    insert(target, table, rows)
