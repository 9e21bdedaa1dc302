"""From the stamped pieces of a whole body to its answer, with pauses for what arrives meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from load.chat.answer import Answer
from load.chat.fast_path import learn_usual
from load.chat.sse import SSEDecoder
from records import ErrorKind

MAX_EVENT_BYTES = 16 * 2**20
YIELD_EVERY = 16
"""Pieces decoded in one go; some 0.1 ms."""
LESSON = 8
"""What learning the usual event costs, in events that it must spare the parser; three lessons are free."""


def decode(pieces: list[tuple[int, bytes]], *, cut: bool = False) -> Iterator[Answer]:
    """Decode a whole body, yielding the same Answer every few pieces so that the caller can pause in between.

    `cut` says that nothing vouches for the body's end (the connection ended it): an event that is only half there was
    then cut off, and is not the engine's bad JSON.
    """
    decoder, answer = SSEDecoder(), Answer()
    take_content = answer.take_content
    between_events = False
    content_of: Callable[[bytes], str | None] | None = None
    credit = 3 * LESSON
    for number, (stamp, data) in enumerate(pieces, start=1):
        if content_of is not None and (content := content_of(data)):
            take_content(content, stamp)
            credit += 1
        elif (
            data[:7] == b"data: {"
            and data.find(b"\n") == len(data) - 2
            and data[-1:] == b"\n"
            and b"\r" not in data
            and between_events
        ):
            # Nearly every read: one event, whole, of one line. The decoder would cut out the same.
            content_of = None
            if answer.error or answer.done:
                pass
            elif not answer.take_plain(data[6:-2], stamp):
                answer.take_data(data[6:-2], stamp)
            elif credit >= LESSON:
                content_of, credit = learn_usual(data), credit - LESSON
        else:
            content_of = None
            for event in decoder.feed(data):
                answer.take(event, stamp)
            between_events = decoder.between_events
            if decoder.pending_bytes > MAX_EVENT_BYTES and not answer.error:
                answer.error = (ErrorKind.BAD_FRAME, f"an event of more than {MAX_EVENT_BYTES} bytes")
        if not number % YIELD_EVERY or len(data) > 4096:
            yield answer
    if pieces:
        before = answer.error
        for event in decoder.flush():
            answer.take(event, pieces[-1][0])
        if cut and before is None and answer.error and answer.error[0] in (ErrorKind.BAD_JSON, ErrorKind.ENCODING):
            answer.error = None
            answer.cut_off = True
    yield answer
