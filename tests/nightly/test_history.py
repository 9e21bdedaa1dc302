import random
import sqlite3
import subprocess
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nightly.history.schema import _V1
from nightly.history.store import VERSION, GateRow, History, HistoryError, read_run
from records import RunFolder, read_json, write_json
from tests.nightly.nightly_builders import Night


def night(out: Path, name: str, day: int, seed: int = 1, **changes: object) -> RunFolder:
    return Night(name, f"2026-01-{day:02}T02:00:00Z", **changes).write(out, random.Random(seed))  # type: ignore[arg-type]


def gate(verdict: str = "ok") -> GateRow:
    return GateRow("llama", "single.perf-short", "output_tok_s", "a", 0.9, 0.8, 1.0, 0.97, verdict, "why")


def test_an_import_keeps_figures_by_round_and_over_all_rounds(tmp_path: Path) -> None:
    folder = night(tmp_path, "a", 1)
    with History(tmp_path / "h.db") as history:
        history.add(read_run(folder))
        row = read_json(folder.comparison("1", "json"))["performance"][0]
        rounds = list(row["engines"]["llama"]["rounds"].values())
        assert history.rounds("a", "llama", "single.perf-short", row["metric"]) == rounds
        whole = [f for f in history.figures("a") if f.metric == row["metric"] and f.round == 0]
        assert [f.value for f in whole] == [row["engines"]["llama"]["value"]]
        assert history.engines("a")["llama"].build == "b9371"
        assert history.get("a").status == "complete"


def test_importing_twice_changes_nothing_and_keeps_pin_and_gates(tmp_path: Path) -> None:
    run = read_run(night(tmp_path, "a", 1))
    with History(tmp_path / "h.db") as history:
        assert history.add(run)
        history.pin("a", "2026-01-02T00:00:00Z")
        history.add_gates("a", [gate()], 0)
        before = history.figures("a")
        assert not history.add(run)
        assert history.figures("a") == before
        assert history.get("a").pinned_utc
        assert history.gates("a") == [gate()]


def test_a_newer_scoring_of_a_run_replaces_its_figures_but_not_its_pin(tmp_path: Path) -> None:
    folder = night(tmp_path, "a", 1)
    with History(tmp_path / "h.db") as history:
        history.add(read_run(folder))
        history.pin("a", "2026-01-02T00:00:00Z")
        comparison = read_json(folder.comparison("1", "json"))
        comparison["performance"] = comparison["performance"][:1]
        write_json(folder.comparison("2", "json"), comparison)
        assert history.add(read_run(folder))
        assert {f.metric for f in history.figures("a")} == {"output_tok_s"}
        assert history.get("a").pinned_utc


def test_a_comparison_against_another_run_is_not_taken_for_the_run_itself(tmp_path: Path) -> None:
    folder = night(tmp_path, "a", 1)
    other = read_json(folder.comparison("1", "json")) | {"run_id": "b / a", "engines": {"llama@b": {}, "llama@a": {}}}
    write_json(folder.comparison("9-against-b", "json"), other)
    assert [engine.engine for engine in read_run(folder).engines] == ["llama"]


def test_a_run_with_a_failed_check_is_void_and_one_with_an_open_cell_partial(tmp_path: Path) -> None:
    assert read_run(night(tmp_path, "void", 1, void=True)).status == "void"
    folder = night(tmp_path, "partial", 1)
    write_json(folder.round("llama", 3).cell("single.perf-short").scenario, {"complete": False})
    assert read_run(folder).status == "partial"


@pytest.mark.parametrize("spoil", ["run.json", "comparison-1.json"])
def test_a_missing_or_broken_file_is_one_line_that_names_the_folder(tmp_path: Path, spoil: str) -> None:
    folder = night(tmp_path, "a", 1)
    (folder.path / spoil).write_text("{")
    with pytest.raises(HistoryError, match=str(folder.path)) as broken:
        read_run(folder)
    (folder.path / spoil).unlink()
    with pytest.raises(HistoryError, match=str(folder.path)) as missing:
        read_run(folder)
    assert "\n" not in str(broken.value) + str(missing.value)


def version_1(path: Path) -> None:
    """A database as version 1 of the schema made it."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(_V1)
        db.executescript("PRAGMA application_id = 1162756680; PRAGMA user_version = 1;")
        db.execute(
            "INSERT INTO run VALUES('old', '2025-12-01T00:00:00Z', 'night', 'p', '{\"kernel\": \"6\"}', 'complete')"
        )
        db.execute("INSERT INTO engine VALUES('old', 'llama', 'llama_cpp', 'b9000')")
        db.execute(
            "INSERT INTO figure VALUES('old', 'llama', 'single.perf-short', 'output_tok_s', 0, 99.5, 20, 98, 101)"
        )
        db.execute("INSERT INTO quality VALUES('old', 'llama', 'gsm8k', 50, 49, 0.98, 0.9, 1, 0, 0, 0)")
        db.execute(
            "INSERT INTO gate VALUES('old', 'llama', 'single.perf-short', 'output_tok_s', NULL, 1, 0.9, 1.1, 'ok')"
        )
        db.commit()


def test_a_version_1_history_is_migrated_whole_with_a_copy_kept(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    version_1(path)
    with History(path) as history:
        assert history.migrated_from == 1
        run = history.get("old")
        assert (run.kind, run.status, run.pinned_utc, run.fingerprint) == ("run", "complete", None, {"kernel": "6"})
        assert [(f.value, f.n, f.unit) for f in history.figures("old")] == [(99.5, 20, None)]
        assert history.engines("old")["llama"].setup == {}
        assert history.quality("old")[0].outcomes is None
        assert history.gates("old")[0].limit_ratio is None
        assert history.check() == "ok"
    with closing(sqlite3.connect(tmp_path / "h.db.v1.bak")) as copy:
        assert copy.execute("PRAGMA user_version").fetchone()[0] == 1
        assert copy.execute("SELECT value FROM figure").fetchone()[0] == 99.5
    with History(path) as again:
        assert again.migrated_from == VERSION


def test_a_migrated_history_has_the_same_tables_as_a_new_one(tmp_path: Path) -> None:
    version_1(tmp_path / "old.db")
    layouts = []
    for name in ("old.db", "new.db"):
        History(tmp_path / name).close()
        with closing(sqlite3.connect(tmp_path / name)) as db:
            layouts.append(sorted(row[0] for row in db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")))
    assert layouts[0] == layouts[1]


def test_a_migration_that_fails_leaves_the_old_version(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    version_1(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE cell(in_the_way)")
    with pytest.raises(HistoryError, match="already exists"):
        History(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone()[0] == 1
        assert "kind" not in [row[1] for row in db.execute("PRAGMA table_info(run)")]


def test_a_newer_history_a_foreign_database_and_no_database_are_refused_untouched(tmp_path: Path) -> None:
    newer, foreign, text = tmp_path / "newer.db", tmp_path / "foreign.db", tmp_path / "text.db"
    History(newer).close()
    with closing(sqlite3.connect(newer)) as db:
        db.execute("PRAGMA user_version = 99")
    with closing(sqlite3.connect(foreign)) as db:
        db.execute("CREATE TABLE bookmarks(url)")
    text.write_text("not a database " * 100)
    for path, message in ((newer, "version 99"), (foreign, "not a history"), (text, "not a database")):
        before = path.read_bytes()
        with pytest.raises(HistoryError, match=message) as error:
            History(path)
        assert "\n" not in str(error.value)
        assert path.read_bytes() == before


def test_pruning_keeps_the_pin_and_the_last_good_run(tmp_path: Path) -> None:
    with History(tmp_path / "h.db") as history:
        for day in range(1, 9):
            history.add(read_run(night(tmp_path, f"n{day}", day, seed=day)))
        history.pin("n1", "2026-01-09T00:00:00Z")
        for day in (6, 7, 8):
            history.end(f"n{day}", exit_code=1)
        assert history.prune(keep=2) == ["n2", "n3", "n4", "n6"]
        assert [run.run_id for run in history.runs()] == ["n1", "n5", "n7", "n8"]
        assert history.prune(older_than=datetime(2026, 1, 8, tzinfo=UTC)) == ["n7"]
        assert history.figures("n2") == []


def test_only_a_complete_run_can_be_pinned(tmp_path: Path) -> None:
    with History(tmp_path / "h.db") as history:
        history.add(read_run(night(tmp_path, "a", 1, void=True)))
        with pytest.raises(HistoryError, match="void"):
            history.pin("a", "2026-01-09T00:00:00Z")
        with pytest.raises(HistoryError, match="no run 'b'"):
            history.pin("b", "2026-01-09T00:00:00Z")


def test_two_histories_merge_by_content_and_nothing_is_overwritten(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    shared = read_run(night(one, "shared", 1))
    with History(tmp_path / "other.db") as other:
        other.add(shared)
        other.add(read_run(night(two, "same-name", 2, seed=2)))
        other.add(read_run(night(two, "theirs", 3, seed=3)))
        other.add_gates("theirs", [gate()], 0)
        other.begin("still-going", "2026-01-04T00:00:00Z", "night", "nightly")
    before = (tmp_path / "other.db").read_bytes()
    with History(tmp_path / "h.db") as history:
        history.add(shared)
        history.add(read_run(night(one, "same-name", 2, seed=9)))
        mine = history.figures("same-name")
        added, renamed = history.merge(tmp_path / "other.db")
        assert len(renamed) == 1 and renamed[0].startswith("same-name.")
        assert sorted(added) == sorted(["theirs", *renamed])
        assert history.figures("same-name") == mine
        assert history.figures(renamed[0]) != mine and history.figures(renamed[0])
        assert history.gates("theirs") == [gate()]
        assert history.merge(tmp_path / "other.db") == ([], [])
        assert history.find("still-going") is None
    assert (tmp_path / "other.db").read_bytes() == before


def test_an_older_history_merges_without_being_changed(tmp_path: Path) -> None:
    version_1(tmp_path / "old.db")
    before = (tmp_path / "old.db").read_bytes()
    with History(tmp_path / "h.db") as history:
        assert history.merge(tmp_path / "old.db") == (["old"], [])
        assert history.merge(tmp_path / "old.db") == ([], [])
        assert history.figures("old")[0].value == 99.5
    assert (tmp_path / "old.db").read_bytes() == before
    assert not (tmp_path / "old.db.v1.bak").exists()


def test_a_reader_is_not_blocked_by_a_writer_and_a_second_writer_gets_one_line(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with History(path) as history:
        history.add(read_run(night(tmp_path, "a", 1)))
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("UPDATE run SET note = 'half'")
            with History(path, busy_timeout_s=0.05) as second:
                assert second.get("a").note is None
                with pytest.raises(HistoryError, match="another program holds it"):
                    second.end("a", note="mine")


def test_a_full_disk_keeps_what_was_there_and_says_so(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    try:
        added = 0
        with History(disk / "h.db") as history, pytest.raises(HistoryError, match="is the disk full") as error:
            for day in range(1, 29):
                history.add(read_run(night(tmp_path, f"n{day}", day, seed=day, rounds=20)))
                added += 1
        assert "\n" not in str(error.value)
        assert added >= 1
        copy = tmp_path / "copy.db"
        for suffix in ("", "-wal"):
            if (source := disk / f"h.db{suffix}").exists():
                copy.with_name(copy.name + suffix).write_bytes(source.read_bytes())
        with History(copy) as history:
            assert history.check() == "ok"
            assert [run.run_id for run in history.runs()] == [f"n{day}" for day in range(1, added + 1)]
            assert all(len(history.figures(run.run_id)) == 3 * 21 for run in history.runs())
    finally:
        subprocess.run(["umount", disk], check=True)
