"""Decodes the stamped pieces of a complete body, with pauses so that arriving bytes can be stamped."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from load.chat.answer import Answer
from load.chat.json import body_error
from load.chat.repeated import content_reader
from load.chat.sse import SSEDecoder
from records import ErrorKind

MAX_EVENT_BYTES = 16 * 2**20
YIELD_EVERY = 16
"""Pieces decoded between two pauses; about 0.1 ms."""
# Reading repeated events by `content_reader` saves 7% of the client's CPU at 64 streams (sampling profiler).
LEARN_EVERY = 8
"""Events between two attempts to build a reader; building one costs what it saves on about four events."""


def decode(pieces: list[tuple[int, bytes]], *, cut: bool = False, content_type: str = "") -> Iterator[Answer]:
    """Decode a complete body; yields the same Answer every few pieces, so that the caller can pause.

    Args:
        pieces: (arrival in ns, bytes) of the body without its framing.
        cut: whether the connection ended a body that may be incomplete. An incomplete last event then counts as cut
            off, not as bad JSON.
        content_type: the response's, for the message about a body that is no event stream.
    """
    decoder, answer = SSEDecoder(), Answer()
    take_plain, take_content = answer.take_plain, answer.take_content
    between_events = False
    read_content: Callable[[bytes], str | None] | None = None
    next_lesson = 0
    for number, (stamp, data) in enumerate(pieces, start=1):
        if read_content is not None and (content := read_content(data)):
            take_content(content, stamp)
        elif (
            # Most reads are one complete event of one line; the decoder would give the same result.
            between_events
            and data.startswith(b"data: {")
            and data.endswith(b"}\n\n")
            and data.find(b"\n") == len(data) - 2
            and b"\r" not in data
        ):
            read_content = None
            if answer.error or answer.done:
                pass
            elif not take_plain(data[6:], stamp):
                answer.events += 1
                answer.take_data(data[6:-2], stamp)
            elif number >= next_lesson:
                read_content, next_lesson = content_reader(data), number + LEARN_EVERY
        else:
            read_content = None
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
    if not (answer.events or answer.chunk_ns or answer.error):
        answer.error = body_error(b"".join(data for _, data in pieces), content_type)
    answer.finish()
    yield answer
