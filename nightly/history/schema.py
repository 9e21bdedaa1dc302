"""The history's tables, one migration step a version. A new file runs every step, so the old ones never rot."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

APPLICATION_ID = 0x454E4248
"""`ENBH`: tells our file from any other SQLite database before anything is written to it."""

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

STEPS = (_V1, _V2)
VERSION = len(STEPS)


class HistoryError(ValueError):
    """The history cannot be used. One line: which file, what is wrong, what to do."""


def migrate(connection: sqlite3.Connection, path: Path, *, backup: bool = True) -> int:
    """Bring a database to this version in one transaction; an older one is first copied to `<name>.v<old>.bak`.

    Returns:
        The version that was found (0 for a new file).

    Raises:
        HistoryError: the file is another program's, or of a newer version.
        sqlite3.Error: it cannot be written; then it is as it was.
    """
    found = _pragma(connection, "user_version")
    mine = _pragma(connection, "application_id") == APPLICATION_ID
    if not mine and (found or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]):
        raise HistoryError(
            f"{path}: an SQLite database, but not a history of enginebench; name another file with --history"
        )
    if found > VERSION:
        raise HistoryError(
            f"{path}: history of version {found}, this program knows up to {VERSION}; update enginebench"
        )
    if found == VERSION:
        return found
    if found and backup:
        with closing(sqlite3.connect(path.with_name(f"{path.name}.v{found}.bak"))) as copy:
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
    return found


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
