"""Taking over the runs of another history, by content: the same run twice is one run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from nightly.history.schema import HistoryError, migrate
from nightly.history.sql import insert

_TABLES = ("run", "engine", "cell", "figure", "quality", "gate")


def copy_in_memory(path: Path) -> sqlite3.Connection:
    """A copy at this version of a history that may be older; the file itself is only read.

    Raises:
        HistoryError: no such file, or not a history.
        sqlite3.Error: it cannot be read.
    """
    if not path.is_file():
        raise HistoryError(f"{path}: no such file")
    copy = sqlite3.connect(":memory:", isolation_level=None)
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as disk:
            disk.backup(copy)
        if int(copy.execute("PRAGMA user_version").fetchone()[0]) == 0:
            raise HistoryError(f"{path}: not a history of enginebench")
        migrate(copy, path, backup=False)
    except BaseException:
        copy.close()
        raise
    return copy


def take_over(source: sqlite3.Connection, target: sqlite3.Connection) -> tuple[list[str], list[str]]:
    """Copy what the target lacks; see `History.merge`. The caller holds the transaction."""
    names: dict[str, str] = {}
    for run_id, digest in source.execute(
        "SELECT run_id, digest FROM run WHERE status != 'running' ORDER BY created_utc"
    ):
        if digest and target.execute("SELECT 1 FROM run WHERE digest = ?", (digest,)).fetchone():
            continue
        mine = target.execute("SELECT digest FROM run WHERE run_id = ?", (run_id,)).fetchone()
        if mine is not None and (digest is None or mine[0] is None):
            # Without a digest on both sides (before version 2, or never finished) the id is all there is to go by.
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
        for reference in ("confirms", "baseline"):
            if row.get(reference) in names:
                row[reference] = names[row[reference]]
    insert(target, table, rows)
