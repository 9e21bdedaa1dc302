"""Defines the history's tables (one migration step per version), and opens, copies and writes its file.

A new file runs every step, so every new history tests the old steps.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

APPLICATION_ID = 0x454E4248
"""`ENBH`: distinguishes a history from any other SQLite database before anything is written to it."""

_V1 = """
CREATE TABLE run(
    run_id TEXT PRIMARY KEY, created_utc TEXT NOT NULL, profile TEXT NOT NULL, profile_sha256 TEXT,
    fingerprint TEXT NOT NULL, status TEXT NOT NULL);
CREATE TABLE engine(
    run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, engine TEXT NOT NULL, kind TEXT, build TEXT,
    PRIMARY KEY(run_id, engine));
CREATE TABLE figure(
    run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, engine TEXT NOT NULL, cell TEXT NOT NULL,
    metric TEXT NOT NULL, round INTEGER NOT NULL, value REAL NOT NULL, n INTEGER, ci_low REAL, ci_high REAL,
    PRIMARY KEY(run_id, engine, cell, metric, round)) WITHOUT ROWID;
CREATE TABLE quality(
    run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, engine TEXT NOT NULL, cell TEXT NOT NULL,
    n INTEGER, correct INTEGER, accuracy REAL, ci_low REAL, ci_high REAL, truncated INTEGER, no_answer INTEGER,
    errors INTEGER, PRIMARY KEY(run_id, engine, cell));
CREATE TABLE gate(
    run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, engine TEXT NOT NULL, cell TEXT NOT NULL,
    metric TEXT NOT NULL, baseline TEXT, ratio REAL, ci_low REAL, ci_high REAL, verdict TEXT NOT NULL,
    PRIMARY KEY(run_id, engine, cell, metric));
"""

# Version 2: what a comparison needs to know to be refused (setup, load), pins, confirmations, and merging by content.
_V2 = """
ALTER TABLE run ADD COLUMN kind TEXT NOT NULL DEFAULT 'run';
ALTER TABLE run ADD COLUMN confirms TEXT;
ALTER TABLE run ADD COLUMN pinned_utc TEXT;
ALTER TABLE run ADD COLUMN digest TEXT;
ALTER TABLE run ADD COLUMN exit_code INTEGER;
ALTER TABLE run ADD COLUMN note TEXT;
ALTER TABLE engine ADD COLUMN setup TEXT NOT NULL DEFAULT '{}';
ALTER TABLE figure ADD COLUMN unit TEXT;
ALTER TABLE quality ADD COLUMN outcomes TEXT;
ALTER TABLE gate ADD COLUMN limit_ratio REAL;
ALTER TABLE gate ADD COLUMN evidence TEXT;
CREATE TABLE cell(
    run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, cell TEXT NOT NULL, load_sha256 TEXT,
    PRIMARY KEY(run_id, cell));
CREATE INDEX run_by_time ON run(profile, created_utc);
CREATE UNIQUE INDEX run_by_digest ON run(digest) WHERE digest IS NOT NULL;
"""

# Version 3: since which run a regression stands, the place of a run whose clock went back, failed requests.
_V3 = """
ALTER TABLE gate ADD COLUMN since TEXT;
ALTER TABLE run ADD COLUMN place_utc TEXT;
ALTER TABLE run ADD COLUMN requests_failed INTEGER NOT NULL DEFAULT 0;
UPDATE run SET requests_failed = 1 WHERE exit_code = 1 AND NOT EXISTS(
    SELECT 1 FROM gate WHERE gate.run_id = run.run_id AND gate.verdict IN ('regression', 'suspected'));
"""

STEPS = (_V1, _V2, _V3)
VERSION = len(STEPS)


class HistoryError(ValueError):
    """The history cannot be used. One line: which file, what is wrong, what to do."""


def migrate(connection: sqlite3.Connection, path: Path, *, backup: bool = True) -> int:
    """Bring a database to this version in one transaction; an older one is first copied to `<name>.v<old>.bak`.

    Returns:
        The version before the migration (0 for a new file).

    Raises:
        HistoryError: the file belongs to another program, or has a newer version.
        sqlite3.Error: the file cannot be written; it is then unchanged.
    """
    version = _pragma(connection, "user_version")
    mine = _pragma(connection, "application_id") == APPLICATION_ID
    if not mine and (version or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]):
        raise HistoryError(
            f"{path}: an SQLite database, but not a history of enginebench; name another file with --history"
        )
    if version > VERSION:
        raise HistoryError(
            f"{path}: history of version {version}, this program knows up to {VERSION}; update enginebench"
        )
    if version == VERSION:
        return version
    if version and backup:
        with closing(sqlite3.connect(path.with_name(f"{path.name}.v{version}.bak"))) as copy:
            connection.backup(copy)
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated while this one waited for the lock.
        for step in STEPS[_pragma(connection, "user_version") :]:
            for statement in step.split(";"):
                if statement.strip():
                    connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return version


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def copy_in_memory(path: Path) -> sqlite3.Connection:
    """A copy in memory of a history, migrated to this version; the file itself is only read.

    Raises:
        HistoryError: no such file, or not a history.
        sqlite3.Error: the file cannot be read.
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


def _storable(value: Any) -> Any:
    """A text as SQLite can keep it: half a surrogate pair, which an engine's JSON may hold, is spelled out."""
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def insert(
    db: sqlite3.Connection, table: str, rows: Sequence[Mapping[str, Any]], *, update: Sequence[str] = ()
) -> None:
    """Insert rows that all have the first row's keys; `update` names columns to overwrite where the run exists."""
    if not rows:
        return
    keys = list(rows[0])
    sql = f"INSERT INTO {table}({', '.join(keys)}) VALUES({', '.join(':' + key for key in keys)})"
    if update:
        sql += " ON CONFLICT(run_id) DO UPDATE SET " + ", ".join(f"{key} = excluded.{key}" for key in update)
    db.executemany(sql, [{key: _storable(row[key]) for key in keys} for row in rows])


@contextmanager
def one_line(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the file system into a `HistoryError`."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        hint = ""
        if "full" in text or "disk I/O" in text:
            hint = "; is the disk full? This change was not stored; the earlier content is intact"
        elif "locked" in text:
            hint = "; another program holds it, try again later"
        elif "not a database" in text or "malformed" in text:
            hint = "; move the file away to start a new history, or restore a copy"
        raise HistoryError(f"{path}: history: {text}{hint}") from None
    except OSError as error:
        raise HistoryError(f"{path}: history: {error.strerror or error}") from None
