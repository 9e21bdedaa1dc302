"""Two helpers round sqlite3: rows from dictionaries, and its errors in one line that says what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nightly.history.schema import HistoryError


def insert(
    db: sqlite3.Connection, table: str, rows: Sequence[Mapping[str, Any]], *, update: Sequence[str] = ()
) -> None:
    """Insert rows that all have the first one's keys; `update` names columns to overwrite where the run is known."""
    if not rows:
        return
    keys = list(rows[0])
    sql = f"INSERT INTO {table}({', '.join(keys)}) VALUES({', '.join(':' + key for key in keys)})"
    if update:
        sql += " ON CONFLICT(run_id) DO UPDATE SET " + ", ".join(f"{key} = excluded.{key}" for key in update)
    db.executemany(sql, rows)


@contextmanager
def one_line(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the file system into a `HistoryError`."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        hint = ""
        if "full" in text or "disk I/O" in text:
            hint = "; is the disk full? Nothing of this change was kept, what was there before is whole"
        elif "locked" in text:
            hint = "; another program holds it, try again later"
        elif "not a database" in text or "malformed" in text:
            hint = "; put it aside and start anew, or restore a copy"
        raise HistoryError(f"{path}: history: {text}{hint}") from None
    except OSError as error:
        raise HistoryError(f"{path}: history: {error.strerror or error}") from None
