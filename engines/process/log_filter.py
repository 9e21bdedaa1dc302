"""Scrubs a log while it is written, so that no secret reaches the disk, not even when the driver is killed."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence

from records.redaction import HIDDEN, written_forms

_HIDDEN = HIDDEN.encode()
_READ_BYTES = 1 << 16
_TELLING_BYTES = 4
"""A shorter beginning of a secret at the end of a log reveals nothing."""


class ScrubbedStream:
    """Replaces secrets in a stream of bytes; bytes that may begin a secret wait for the next piece."""

    def __init__(self, secrets: Sequence[str]) -> None:
        forms = {form.encode() for secret in secrets for form in written_forms(secret)}
        self._forms = sorted(forms, key=len, reverse=True)
        self._any = re.compile(b"|".join(map(re.escape, self._forms)))
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Add a piece; returns the bytes that may be written now."""
        data = self._held + data
        tail = 0
        for match in self._any.finditer(data):
            # The bytes may be the beginning of a longer secret.
            if self._begins(data[match.start() :]):
                break
            tail = match.end()
        longest = len(self._forms[0])
        cut = next(
            (at for at in range(max(tail, len(data) - longest), len(data)) if self._begins(data[at:])), len(data)
        )
        self._held = data[cut:]
        return self._any.sub(_HIDDEN, data[:cut])

    def end(self) -> bytes:
        """End the stream; returns the remaining bytes."""
        held, self._held = self._held, b""
        clean = self._any.sub(_HIDDEN, held)
        return _HIDDEN if clean == held and len(held) >= _TELLING_BYTES else clean

    def _begins(self, data: bytes) -> bool:
        """Whether these bytes are an incomplete beginning of a secret."""
        return any(len(form) > len(data) and form.startswith(data) for form in self._forms)


def scrubbed_pipe(secrets: Sequence[str], log_fd: int) -> tuple[int, threading.Thread]:
    """The end of a pipe to write to, and the thread that copies it to the log; it ends when all writers have closed."""
    read_fd, write_fd = os.pipe()
    thread = threading.Thread(target=_copy, args=(read_fd, log_fd, ScrubbedStream(secrets)), daemon=True)
    thread.start()
    return write_fd, thread


def _copy(read_fd: int, log_fd: int, stream: ScrubbedStream) -> None:
    while data := os.read(read_fd, _READ_BYTES):
        _write(log_fd, stream.feed(data))
    _write(log_fd, stream.end())
    os.close(read_fd)


def _write(log_fd: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(log_fd, data) :]
    except OSError:
        # A full disk: the rest of the log is lost, but the engine must not wait for it.
        return
