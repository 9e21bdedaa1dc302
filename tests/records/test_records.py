import json
import math
from pathlib import Path
from typing import Any

import pytest

from records import ErrorKind, Record, RunFolder, cell_name, read_json_lines, read_records, workload_name, write_json


def record(**values: object) -> Record:
    base: dict[str, object] = {
        "id": "1", "engine": "a", "cell": "single.x", "round": 1, "worker": "w", "user": 0, "seq": 0, "attempt": 1,
        "workload": "x", "prompt_id": "p", "prompt_sha256": "0", "sample": 0, "phase": "measure", "connect_ns": None,
        "scheduled_ns": None, "sent_ns": 1, "end_ns": 2,
    }  # fmt: skip
    return Record.from_dict({**base, **values})


def test_a_record_survives_its_line_whatever_the_text(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    text = 'line\u2028sep "quote" \\ \x00 \ud83d lone, emoji 😀 \n end'
    path.write_text(record(text=text, chunk_ns=[1, 2]).to_json_line() * 2)
    assert [r.text for r in read_records(path)] == [text, text]
    assert path.read_text().count("\n") == 2


@pytest.mark.parametrize(
    "odd",
    [
        {"system_fingerprint": "\ud800"},
        {"server_timings": {"predicted_ms": math.inf}, "text": "é"},
        {"server_timings": {"predicted_ms": math.nan}},
        {"server_timings": {"predicted_n": 10**20}},
        {"server_timings": {"\ud800": 1.5e-7}},
        {"server_timings": {"predicted_ms": 0.1 + 0.2, "n": 2**63}},
    ],
)
def test_what_a_server_says_can_be_read_again(tmp_path: Path, odd: dict[str, Any]) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(record(**odd).to_json_line(), encoding="ascii")
    assert len(list(read_records(path))) == len(list(read_json_lines(path))) == 1
    (name, told), *_ = odd.items()
    if "predicted_ms" not in told:
        assert [line[name] for _, line in read_json_lines(path)] == [told]


def test_a_line_torn_by_a_kill_is_skipped_but_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    line = record().to_json_line()
    path.write_text(line + line[: len(line) // 2])
    assert len(list(read_records(path))) == 1
    path.write_text(line[: len(line) // 2] + "\n" + line)
    with pytest.raises(ValueError, match=r"requests\.jsonl:1:"):
        list(read_records(path))


def test_a_line_that_is_no_record_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text('{"id": "1"}\n')
    with pytest.raises(ValueError, match=r"requests\.jsonl:1: not a record: .*engine"):
        list(read_records(path))
    path.write_text("[1]\n")
    with pytest.raises(ValueError, match="a JSON object was expected, not list"):
        list(read_json_lines(path))


def test_fields_of_a_newer_schema_are_ignored() -> None:
    assert record(invented_later=1).id == "1"


def test_every_error_kind_has_its_docstring() -> None:
    import ast
    import inspect

    from records import error_kinds

    body = next(
        node for node in ast.parse(inspect.getsource(error_kinds)).body
        if isinstance(node, ast.ClassDef) and node.name == "ErrorKind"
    ).body[1:]  # fmt: skip
    assert len(body) == 2 * len(ErrorKind)
    for name, doc in zip(body[::2], body[1::2], strict=True):
        assert isinstance(name, ast.Assign)
        assert isinstance(doc, ast.Expr)


def test_write_json_leaves_the_old_file_when_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def test_a_broken_capture_is_set_aside_under_the_next_free_name(tmp_path: Path) -> None:
    cell = RunFolder(tmp_path).round("a", 1).cell("single.x")
    cell.path.mkdir(parents=True)
    assert cell.set_aside() is None
    for k in (1, 2):
        cell.requests.write_text(str(k))
        aside = cell.set_aside()
        assert aside is not None
        assert aside.name == f"requests.partial-{k}.jsonl"
    assert not cell.requests.exists()


def test_rounds_are_found_in_the_order_of_their_number(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for number in (10, 2, 1):
        run.round("a", number).path.mkdir(parents=True)
    (tmp_path / "a" / "rx").mkdir()
    assert [r.number for r in run.rounds("a")] == [1, 2, 10]


def test_a_write_that_fails_names_the_file_and_not_its_temporary_one(tmp_path: Path) -> None:
    with pytest.raises(OSError) as error:
        write_json(tmp_path / "gone" / "x.json", {})
    assert error.value.filename == str(tmp_path / "gone" / "x.json")


@pytest.mark.parametrize(
    ("workload", "name"),
    [("gsm8k", "gsm8k"), ("mmlu-0.5", "mmlu-0.5"), ("my/files/q.v2.jsonl", "q.v2"), ("q.jsonl", "q")],
)
def test_a_workload_is_called_by_its_file_or_as_it_is(workload: str, name: str) -> None:
    assert workload_name(workload) == name
    assert cell_name("single", workload) == f"single.{name}"
    assert cell_name("single", workload, "mine") == "mine"


def test_what_was_set_aside_is_read_in_the_order_of_its_lives(tmp_path: Path) -> None:
    life = RunFolder(tmp_path).round("a", 1)
    life.path.mkdir(parents=True)
    for k in (1, 2, 10):
        write_json(life.path / f"engine.partial-{k}.json", {"k": k})
    assert [each["k"] for each in life.earlier_states()] == [1, 2, 10]
