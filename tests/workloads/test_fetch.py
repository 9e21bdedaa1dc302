"""Fetching: what is kept, what is refused, and what is said where there is no network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import datasets
import pytest
from click.testing import CliRunner

from driver.commands.fetch import command
from driver.errors import BenchError, ExitCode
from tests.scoring.shared_files import rows, shared
from workloads import TaskError, load_prompts
from workloads.fetch import fetch
from workloads.problem_sets import Source
from workloads.tasks.aime2025 import AIME2025
from workloads.tasks.gsm8k import GSM8K


def hub(tmp_path: Path, **contents: list[dict[str, Any]]) -> Any:
    """A hub of local files, read by `datasets` as the real one is: repository__config -> rows."""

    def load(source: Source, config: str | None) -> Iterable[dict[str, Any]]:
        name = source.repo.split("/")[1].lower() + (f"__{config}" if config else "")
        if name not in contents:
            raise ConnectionError(f"{name} can't be\nreached")
        path = tmp_path / f"{name}.parquet"
        datasets.Dataset.from_list(contents[name]).to_parquet(path)
        loaded: Iterable[dict[str, Any]] = datasets.load_dataset(
            "parquet", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache")
        )
        return loaded

    datasets.disable_progress_bars()
    return load


def aime() -> list[dict[str, Any]]:
    return rows("data/aime2025.jsonl")


def test_a_fetched_set_is_kept_with_its_hash_and_loads(tmp_path: Path) -> None:
    result = fetch("gsm8k", tmp_path, load=hub(tmp_path, gsm8k__main=rows("data/gsm8k_test.jsonl")))
    assert (result.rows, result.revision, result.fetched) == (1319, GSM8K.sources[0].revision, True)
    assert result.sha256 == hashlib.sha256(result.path.read_bytes()).hexdigest()
    note = json.loads((tmp_path / "gsm8k.fetch.json").read_text())
    assert note == {"rows": 1319, "sha256": result.sha256, "revision": result.revision, "source": "openai/gsm8k"}
    assert load_prompts("gsm8k", data_dir=tmp_path)[0].gold == "18"


def test_what_is_there_already_is_not_fetched_again(tmp_path: Path) -> None:
    load = hub(tmp_path, aime25=aime())
    first = fetch("aime2025", tmp_path, load=load)
    again = fetch("aime2025", tmp_path, load=hub(tmp_path))
    assert not again.fetched and again.sha256 == first.sha256
    first.path.write_text("changed", encoding="utf-8")
    assert fetch("aime2025", tmp_path, load=load).fetched, "a copy that is not what was fetched is replaced"


def test_the_second_source_serves_where_the_first_cannot_be_reached(tmp_path: Path) -> None:
    other = [{"question": row["problem"], "answer": row["answer"]} for row in aime()]
    parts = {"aime2025__AIME2025-I": other[:15], "aime2025__AIME2025-II": other[15:]}
    result = fetch("aime2025", tmp_path, load=hub(tmp_path, **parts))
    assert result.source == "opencompass/AIME2025" and result.rows == 30
    assert load_prompts("aime2025", data_dir=tmp_path)[29].gold == "240"


def test_the_second_source_serves_where_the_first_has_other_golds(tmp_path: Path) -> None:
    wrong = [{**row, "answer": "1"} for row in aime()]
    parts = {"aime25": wrong, "aime2025__AIME2025-I": aime()[:15], "aime2025__AIME2025-II": aime()[15:]}
    assert fetch("aime2025", tmp_path, load=hub(tmp_path, **parts)).source == AIME2025.sources[1].repo


def test_without_network_one_line_names_the_file_to_place_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(TaskError) as caught:
        fetch("aime2025", tmp_path, load=hub(tmp_path))
    message = str(caught.value)
    assert str(tmp_path / "aime2025.jsonl") in message and "--from FILE" in message and "\n" not in message
    assert list(tmp_path.iterdir()) == []


def test_a_failed_fetch_leaves_the_old_copy(tmp_path: Path) -> None:
    old = fetch("aime2025", tmp_path, load=hub(tmp_path, aime25=aime()))
    with pytest.raises(TaskError, match="30"):
        fetch("aime2025", tmp_path, force=True, load=hub(tmp_path, aime25=aime()[:29]))
    assert hashlib.sha256(old.path.read_bytes()).hexdigest() == old.sha256


def test_a_copy_with_a_decoded_frac_is_refused(tmp_path: Path) -> None:
    spoilt = [{**row, "problem": row["problem"].replace("\\frac", "\frac")} for row in aime()]
    with pytest.raises(TaskError, match=r"U\+000C"):
        fetch("aime2025", tmp_path, load=hub(tmp_path, aime25=spoilt))


def test_a_local_copy_is_imported_from_jsonl_and_from_parquet(tmp_path: Path) -> None:
    from_jsonl = fetch("aime2025", tmp_path / "a", source_file=shared("data/aime2025.jsonl"))
    parquet = tmp_path / "copy.parquet"
    datasets.Dataset.from_list(aime()).to_parquet(parquet)
    from_parquet = fetch("aime2025", tmp_path / "b", source_file=parquet)
    assert from_jsonl.sha256 == from_parquet.sha256 and from_jsonl.revision is None


@pytest.mark.parametrize(
    ("content", "says"), [(None, "no such file"), ("{{", "can't be read"), ('{"a": 1}\n', "row 1")]
)
def test_a_local_copy_that_cannot_be_used_says_so_in_one_line(tmp_path: Path, content: str | None, says: str) -> None:
    path = tmp_path / "copy.jsonl"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(TaskError, match=says) as caught:
        fetch("gsm8k", tmp_path, source_file=path)
    assert "\n" not in str(caught.value) and not (tmp_path / "gsm8k.jsonl").exists()


def test_there_is_nothing_to_fetch_for_a_generated_workload(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="nothing to fetch"):
        fetch("arithmetic", tmp_path)


def test_the_command_imports_and_says_what_it_kept(tmp_path: Path) -> None:
    arguments = ["aime2025", "--from", str(shared("data/aime2025.jsonl")), "--data-dir", str(tmp_path)]
    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert done.return_value == ExitCode.DONE and "aime2025: 30 problems" in done.output


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["nosuch"], ExitCode.USAGE), (["--from", "x"], ExitCode.USAGE), (["gsm8k", "--from", "x"], 4)],
)
def test_the_command_fails_with_its_exit_code(tmp_path: Path, arguments: list[str], code: int) -> None:
    done = CliRunner().invoke(command, [*arguments, "--data-dir", str(tmp_path)], standalone_mode=False)
    assert isinstance(done.exception, BenchError) and done.exception.exit_code == code
