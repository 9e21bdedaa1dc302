"""Counts the tokens that an engine does not report, with the profile's `tokenizer`, after a run's last cell.

An answer's tokens are those of its text. An engine's own count may include more, such as the token that ends an answer.
A prompt's tokens depend on the engine's chat template and stay unknown.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from tokenizers import Tokenizer

from driver.errors import BenchError, ExitCode
from driver.run.engine_deaths import rewrite
from records import CellFolder, Record, RunFolder, read_records

SOURCE = "tokenizer"
"""The value of a record's `token_source` and `chunk_token_source` for tokens that were counted here."""


@lru_cache(maxsize=1)
def open_tokenizer(path: Path) -> Tokenizer:
    """Read a `tokenizer.json`, or that of a Hugging Face folder.

    Raises:
        BenchError: the file is missing or broken (exit code 2).
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise BenchError(
            f"tokenizer {path}: no such file; give a tokenizer.json, or a Hugging Face folder with one", ExitCode.USAGE
        )
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the package raises nothing narrower
        raise BenchError(f"tokenizer {file}: cannot be read: {str(error)[:200]}", ExitCode.USAGE) from None


def count_in_run(run: RunFolder, engines: Iterable[str], tokenizer: Tokenizer) -> None:
    """Add missing token counts to every capture of a run. Repeating it changes nothing: a resumed run does so."""
    for engine in engines:
        for round_ in run.rounds(engine):
            for cell in round_.cells():
                count_tokens(cell, tokenizer)


def count_tokens(folder: CellFolder, tokenizer: Tokenizer) -> int:
    """Add missing token counts to the good answers of a capture; the engine's own counts stay.

    Returns:
        The number of changed records.
    """
    if not folder.requests.exists():
        return 0
    records = list(read_records(folder.requests))
    changed = sum([_complete(record, tokenizer) for record in records if record.ok])
    if changed:
        rewrite(folder.requests, records)
    return changed


def _complete(record: Record, tokenizer: Tokenizer) -> bool:
    if record.completion_tokens is not None and record.chunk_tokens is not None:
        return False
    if record.tool_calls or record.refusal or record.choices > 1:
        # The text is not everything that was generated.
        return False
    # Replaces lone surrogates, which the tokenizer refuses, by one character each, so that offsets stay.
    text = (record.reasoning + record.text).encode("utf-8", "replace").decode("utf-8")
    ends = [end for _, end in tokenizer.encode(text, add_special_tokens=False).offsets]
    if record.completion_tokens is None:
        record.completion_tokens, record.token_source = len(ends), SOURCE
    if record.chunk_tokens is None and sum(record.chunk_chars) == len(text) and _thoughts_came_first(record):
        record.chunk_tokens, record.chunk_token_source = _of_chunks(record.chunk_chars, ends), SOURCE
    return True


def _thoughts_came_first(record: Record) -> bool:
    """Whether the chunks are known to have all thoughts before the answer. Chunks have no kind, and may be mixed.

    It is known if there is only one kind of text, or if the chunks before the answer's first piece have all thoughts.
    """
    if not record.reasoning or not record.text:
        return True
    began = record.first_answer_ns
    before = (chars for ns, chars in zip(record.chunk_ns, record.chunk_chars, strict=False) if began and ns < began)
    return sum(before) == len(record.reasoning)


def _of_chunks(chars: list[int], ends: list[int]) -> list[int]:
    """Tokens of each chunk: a token belongs to the chunk with its last character."""
    tokens = [0] * len(chars)
    borders = list(accumulate(chars))
    for end in ends:
        tokens[bisect_left(borders, end)] += 1
    return tokens
