"""Opens the history and reads its rows."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nightly.history.rows import WHOLE_RUN, EngineInfo, FigureRow, GateRow, QualityRow, RunInfo
from nightly.history.schema import HistoryError, migrate, one_line

ORDER = "COALESCE(place_utc, created_utc)"
"""The order of nights (SQL). `place_utc` is set where the clock was set back, to keep the nights in order."""

GOOD = """run.status = 'complete' AND (run.pinned_utc IS NOT NULL OR (COALESCE(run.exit_code, 0) = 0
AND run.requests_failed = 0 AND NOT EXISTS(SELECT 1 FROM gate WHERE gate.run_id = run.run_id
AND gate.verdict IN ('regression', 'missing', 'suspected', 'unconfirmed'))))"""
"""SQL for a good run: complete, no failed request, no figure looked slower; or a pinned run."""

_RUN = ", ".join(RunInfo.__slots__)


class Reader:
    """An open history, for reading. A context manager; every error of the file or disk is a one-line `HistoryError`."""

    def __init__(self, path: Path, *, busy_timeout_s: float = 20.0) -> None:
        self.path = path
        # Caches the rows that a night needs again for every figure; each change empties it.
        self._kept: dict[tuple[str, str], Any] = {}
        with one_line(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None)
            try:
                self.migrated_from = migrate(self._db, path)
                self._db.execute("PRAGMA foreign_keys = ON")
                self._db.execute("PRAGMA journal_mode = WAL")
                # One fsync per commit, so that a night's figures survive a power cut.
                self._db.execute("PRAGMA synchronous = FULL")
            except BaseException:
                self._db.close()
                raise

    def close(self) -> None:
        """Close the file. SQLite merges the WAL into it when the last connection closes."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def find(self, run_id: str) -> RunInfo | None:
        """A run by its id, None where there is none."""
        runs = self.runs(where="run_id = ?", values=(run_id,))
        return runs[0] if runs else None

    def get(self, run_id: str) -> RunInfo:
        """A run by its id.

        Raises:
            HistoryError: there is none.
        """
        run = self.find(run_id)
        if run is None:
            raise HistoryError(f"{self.path}: no run {run_id!r}; `history list` shows them")
        return run

    def runs(
        self, *, profile: str | None = None, good: bool = False, where: str = "1", values: tuple[Any, ...] = ()
    ) -> list[RunInfo]:
        """Runs from old to new; with `good`, only good runs (see `GOOD`)."""
        sql = f"SELECT {_RUN} FROM run WHERE {where}"  # noqa: S608  only constants of this package
        if profile is not None:
            sql, values = sql + " AND profile = ?", (*values, profile)
        if good:
            sql += f" AND {GOOD} AND kind != 'confirmation'"
        with one_line(self.path):
            rows = self._db.execute(sql + f" ORDER BY {ORDER}, run_id", values).fetchall()
        return [
            RunInfo(**dict(zip(_RUN.split(", "), row, strict=True)) | {"fingerprint": json.loads(row[4])})
            for row in rows
        ]

    def engines(self, run_id: str) -> dict[str, EngineInfo]:
        """The engines of a run by name."""
        rows = self._kept_rows("SELECT engine, kind, build, setup FROM engine WHERE run_id = ? ORDER BY engine", run_id)
        return {row[0]: EngineInfo(row[0], row[1], row[2], json.loads(row[3])) for row in rows}

    def loads(self, run_id: str) -> dict[str, str]:
        """Cell -> hash of its load; empty for a run from before version 2."""
        return dict(self._kept_rows("SELECT cell, load_sha256 FROM cell WHERE run_id = ?", run_id))

    def figures(self, run_id: str) -> list[FigureRow]:
        """All figures of a run."""
        names = ", ".join(FigureRow.__slots__)
        rows = self._rows(f"SELECT {names} FROM figure WHERE run_id = ? ORDER BY engine, cell, metric, round", run_id)  # noqa: S608
        return [FigureRow(*row) for row in rows]

    def rounds(self, run_id: str, engine: str, cell: str, metric: str) -> list[float]:
        """A figure of each round; if only the whole run's figure is known, that figure."""
        rows = self._rows(
            "SELECT round, value FROM figure WHERE run_id=? AND engine=? AND cell=? AND metric=? ORDER BY round",
            run_id, engine, cell, metric,
        )  # fmt: skip
        return [row[1] for row in rows if row[0] != WHOLE_RUN] or [row[1] for row in rows]

    def quality(self, run_id: str) -> list[QualityRow]:
        """The answers' rows of a run."""
        names = ", ".join(QualityRow.__slots__)
        rows = self._kept_rows(f"SELECT {names} FROM quality WHERE run_id = ? ORDER BY cell, engine", run_id)  # noqa: S608
        named = [dict(zip(QualityRow.__slots__, row, strict=True)) for row in rows]
        return [QualityRow(**row | {"outcomes": json.loads(row["outcomes"] or "null")}) for row in named]

    def gates(self, run_id: str) -> list[GateRow]:
        """A night's decisions."""
        names = ", ".join(GateRow.__slots__)
        rows = self._rows(f"SELECT {names} FROM gate WHERE run_id = ? ORDER BY engine, cell, metric", run_id)  # noqa: S608
        return [GateRow(*row) for row in rows]

    def gates_of(self, run_id: str, engine: str, cell: str) -> list[GateRow]:
        """A night's decisions on one engine's cell."""
        names = ", ".join(GateRow.__slots__)
        sql = f"SELECT {names} FROM gate WHERE run_id = ? AND engine = ? AND cell = ? ORDER BY metric"  # noqa: S608
        return [GateRow(*row) for row in self._rows(sql, run_id, engine, cell)]

    def check(self) -> str:
        """SQLite's integrity check of the file: `ok`, or the first problem."""
        return str(self._rows("PRAGMA integrity_check")[0][0])

    def _kept_rows(self, sql: str, run_id: str) -> list[Any]:
        if (sql, run_id) not in self._kept:
            self._kept[sql, run_id] = self._rows(sql, run_id)
        return list(self._kept[sql, run_id])

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with one_line(self.path):
            return self._db.execute(sql, values).fetchall()
