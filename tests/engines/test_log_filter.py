"""A log is scrubbed while it is written, however the bytes are cut into pieces."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from engines.process.log_filter import ScrubbedStream
from engines.process.supervised import Supervised
from records import redaction

SECRETS = ["abc-secret-1", "abc-secret-1-longer", 'quo"ted/secret', "bc-other"]


def written(text: bytes, size: int) -> bytes:
    stream = ScrubbedStream(SECRETS)
    return b"".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.end()


@pytest.mark.parametrize("size", range(1, 40))
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key abc-secret-1 and abc-secret-1-longer.", "key *** and ***."),
        ('json quo\\"ted/secret, url quo%22ted%2Fsecret', "json ***, url ***"),
        ("twice abc-secret-1abc-secret-1 abc-secret-2", "twice ****** abc-secret-2"),
        ("ab abc abc- abcabc-secret-1\n", "ab abc abc- abc***\n"),
        ("abc-other and abc-secret-1-long", "a*** and ***-long"),
        ("nothing", "nothing"),
    ],
)
def test_a_secret_is_hidden_wherever_the_pieces_are_cut(text: str, expected: str, size: int) -> None:
    assert written(text.encode(), size).decode() == expected


def test_a_log_that_breaks_off_within_a_secret_does_not_show_its_beginning() -> None:
    assert written(b"key abc-sec", 3) == b"key ***"
    assert written(b"grab", 3) == b"grab"


def test_what_cannot_begin_a_secret_is_written_at_once() -> None:
    stream = ScrubbedStream(SECRETS)
    assert stream.feed(b"loading") == b"loading"
    assert stream.feed(b" weights a") == b" weights "
    assert stream.feed(b"nd more") == b"and more"


def test_a_secret_never_reaches_the_log_of_a_process_that_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction, "_remembered", {"SEKRET-1234": None})
    code = (
        "import time; print('key SEK', end='', flush=True); time.sleep(0.3);"
        "print('RET-1234 end', flush=True); time.sleep(60)"
    )
    log = tmp_path / "log"
    process = Supervised([sys.executable, "-c", code], env={}, folder=tmp_path, log=log, grace_s=1.0)
    try:
        deadline = time.monotonic() + 20
        while b"end" not in log.read_bytes() and time.monotonic() < deadline:
            assert b"SEK" not in log.read_bytes()
            time.sleep(0.01)
        assert log.read_text() == "key *** end\n"
    finally:
        process.stop()


def test_without_a_secret_the_process_writes_to_the_log_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in redaction.CLIENT_KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(redaction, "_remembered", {})
    log = tmp_path / "log"
    code = "import os; print(os.readlink('/proc/self/fd/1'))"
    process = Supervised([sys.executable, "-c", code], env={}, folder=tmp_path, log=log, grace_s=1.0)
    assert process.wait(20) == 0
    assert log.read_text().strip() == str(log)
    process.stop()
