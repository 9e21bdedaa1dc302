"""Tokens of an engine that tells none: counted with the profile's tokenizer, chunk by chunk; what is told stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from driver.errors import BenchError
from driver.run.token_counts import count_tokens, open_tokenizer
from records import CellFolder, Record, read_records
from tests.driver.bench import PERF, PROFILE, QUALITY, Bench


def tokenizer_file(folder: Path) -> Path:
    """A tokenizer that takes each word for a token, and each sign."""
    tokenizer = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def record(**values: Any) -> Record:
    fixed = {
        **{"id": "i", "engine": "a", "cell": "c.w", "round": 1, "worker": "w", "user": 0, "seq": 0, "attempt": 0},
        **{"workload": "w", "prompt_id": "p", "prompt_sha256": "s", "sample": 0, "phase": "measure"},
        **{"connect_ns": None, "scheduled_ns": None, "sent_ns": 1, "end_ns": 9},
    }
    return Record.from_dict({**fixed, **values})


def counted(tmp_path: Path, **values: Any) -> Record:
    """One record as it is on disk after the count."""
    folder = CellFolder(tmp_path)
    folder.requests.write_text(record(**values).to_json_line())
    count_tokens(folder, open_tokenizer(tokenizer_file(tmp_path / "tokenizer")))
    (found,) = read_records(folder.requests)
    return found


def untold(**values: Any) -> dict[str, Any]:
    return {"completion_tokens": None, "token_source": None, "chunk_tokens": None, "chunk_token_source": None, **values}


def test_an_answer_without_usage_gets_the_tokens_of_its_text_and_of_each_chunk(tmp_path: Path) -> None:
    chunks = ["one t", "wo three", "", " four", "."]
    found = counted(tmp_path, **untold(text="".join(chunks), chunk_chars=[len(c) for c in chunks], chunk_ns=[1] * 5))
    assert (found.completion_tokens, found.token_source) == (5, "tokenizer")
    # "two" belongs to the chunk that brought its last letter.
    assert (found.chunk_tokens, found.chunk_token_source) == ([1, 2, 0, 1, 1], "tokenizer")


def test_thoughts_count_and_come_first(tmp_path: Path) -> None:
    chunks = {"chunk_chars": [4, 1], "chunk_ns": [1, 2], "first_answer_ns": 2}
    found = counted(tmp_path, **untold(reasoning="a b ", text="c", **chunks))
    assert found.completion_tokens == 3 and found.chunk_tokens == [2, 1]


@pytest.mark.parametrize(
    ("chars", "stamps", "first_answer_ns"),
    [
        ([1, 4], [1, 2], 1),  # the answer, then a thought
        ([2, 1, 2], [1, 2, 3], 2),  # the answer between two thoughts
        ([4, 1], [1, 1], 1),  # read together: either may have come first
        ([5], [1], 1),  # one delta with both
    ],
)
def test_chunks_stay_unknown_where_the_thoughts_are_not_known_to_have_come_first(
    tmp_path: Path, chars: list[int], stamps: list[int], first_answer_ns: int
) -> None:
    chunks = {"chunk_chars": chars, "chunk_ns": stamps, "first_answer_ns": first_answer_ns}
    found = counted(tmp_path, **untold(reasoning="a b ", text="c", **chunks))
    assert found.completion_tokens == 3 and found.chunk_tokens is None


def test_chunks_that_do_not_make_up_the_text_stay_unknown(tmp_path: Path) -> None:
    found = counted(tmp_path, **untold(text="one two", chunk_chars=[3], chunk_ns=[1]))
    assert found.completion_tokens == 2 and found.chunk_tokens is None and found.chunk_token_source is None


@pytest.mark.parametrize(
    "more", [{"tool_calls": [{"name": "f", "arguments": "{}"}]}, {"refusal": "No."}, {"choices": 2}]
)
def test_tokens_stay_unknown_where_the_text_is_not_all_that_was_generated(tmp_path: Path, more: dict[str, Any]) -> None:
    assert counted(tmp_path, **untold(text="one two", chunk_chars=[7], chunk_ns=[1], **more)).completion_tokens is None


def test_a_lone_surrogate_is_a_character_like_another(tmp_path: Path) -> None:
    found = counted(tmp_path, **untold(text="one \ud83d two", chunk_chars=[4, 5], chunk_ns=[1, 2]))
    assert found.completion_tokens == 3 and found.chunk_tokens == [1, 2]
    assert found.text == "one \ud83d two"


def test_what_the_engine_told_and_what_failed_stays(tmp_path: Path) -> None:
    told = counted(tmp_path, completion_tokens=99, token_source="usage", chunk_tokens=[99], chunk_chars=[3], text="one")
    assert (told.completion_tokens, told.token_source, told.chunk_tokens) == (99, "usage", [99])
    failed = counted(tmp_path, **untold(status="error", error={"kind": "aborted", "message": "cut"}, text="one"))
    assert failed.completion_tokens is None


def test_a_tokenizer_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    for text, said in ((None, "no such file"), ("{}", "cannot be read")):
        path = tmp_path / "t.json"
        if text is not None:
            path.write_text(text)
        with pytest.raises(BenchError, match=said) as caught:
            open_tokenizer(path)
        assert caught.value.exit_code == 2


def test_a_run_of_an_engine_without_usage_has_throughput(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    silent = PROFILE.replace("STANDIN_TOKEN_MS", 'STANDIN_NO_USAGE = "1", STANDIN_TOKEN_MS')
    tokenizer = tokenizer_file(tmp_path / "tokenizer")
    done = bench.run("run", bench.profile(silent, more=f'tokenizer = "{tokenizer}"'), "--run-id", "r", "--json")
    comparison = json.loads(done.stdout)
    for cell in (PERF, QUALITY):
        found = [r for r in read_records(bench.folder("r").round("a", 1).cell(cell).requests) if r.ok]
        assert found and all(r.token_source == "tokenizer" and r.completion_tokens for r in found)
        assert all(sum(r.chunk_tokens or []) == r.completion_tokens for r in found)
    row = next(r for r in comparison["performance"] if (r["cell"], r["metric"]) == (PERF, "output_tok_s"))
    assert row["engines"]["a"]["value"] > 0
    assert any(
        r["check"] == "usage plausible" and "tokens from tokenizer" in r["evidence"] for r in comparison["audit"]
    )


def test_a_missing_tokenizer_stops_a_run_before_its_folder_is_made(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    done = bench.run("run", bench.profile(more='tokenizer = "nowhere"'), "--run-id", "r")
    assert done.code == 2 and "nowhere: no such file" in done.line
    assert not bench.folder("r").path.exists()
