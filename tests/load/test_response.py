"""A reply removes the framing of stamped reads in slices, and says what it knows of its end."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from load.http.framing import Body, FramingError, Head
from load.http.response import End, Reply

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def reply(*reads: bytes) -> Reply:
    """A reply that got these reads at 1, 2, 3 ... ns."""
    made = Reply(0)
    made.pending += list(enumerate(reads, start=1))
    return made


@given(
    st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=20), st.lists(st.integers(0, 900), max_size=12)
)
def test_reads_of_any_size_keep_their_stamps_and_lose_only_the_framing(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(map(chunk, parts)) + b"0\r\n\r\n"
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    reads = [data[a:b] for a, b in itertools.pairwise(edges)]
    body, content = Body(Head(200, {"transfer-encoding": "chunked"})), list[tuple[int, bytes]]()
    body.feed_all(enumerate(reads), content)
    assert b"".join(piece for _, piece in content) == b"".join(parts)
    assert body.complete
    assert body.size == len(data)
    alone = Body(Head(200, {"transfer-encoding": "chunked"}))
    assert content == [(n, piece) for n, read in enumerate(reads) if (piece := alone.feed(read))]


def test_whole_chunks_in_a_row_are_each_unframed_with_their_stamp() -> None:
    body, content = Body(Head(200, {"transfer-encoding": "chunked"})), list[tuple[int, bytes]]()
    reads = [chunk(b"abc"), chunk(b"de\r"), chunk(b"fgh"), chunk(b"i") + chunk(b"jk"), chunk(b"l")]
    body.feed_all(enumerate(reads), content)
    assert content == [(0, b"abc"), (1, b"de\r"), (2, b"fgh"), (3, b"ijk"), (4, b"l")]
    assert not body.complete


def test_a_chunk_that_is_longer_than_it_says_is_an_error_also_after_others() -> None:
    body, content = Body(Head(200, {"transfer-encoding": "chunked"})), list[tuple[int, bytes]]()
    with pytest.raises(FramingError, match="does not end where it should"):
        body.feed_all(enumerate([chunk(b"abc"), b"3\r\nabcd\r\n"]), content)
    assert content == [(0, b"abc")]


def test_the_head_may_come_in_pieces_and_with_the_first_bytes_of_the_body() -> None:
    made = reply(CHUNKED[:20], CHUNKED[20:] + chunk(b"ab"), chunk(b"cd"))
    made.unframe()
    assert made.head is not None
    assert (made.head.status, made.how, made.framed) == (200, "chunked", False)
    assert made.content == [(2, b"ab"), (3, b"cd")]
    assert (made.reads, made.last_ns, made.pending) == (3, 3, [])
    made.pending.append((9, b"0\r\n\r\n"))
    made.unframe()
    assert (made.framed, made.reads, made.last_ns, made.size) == (True, 4, 9, len(chunk(b"ab") + chunk(b"cd")) + 5)


def test_without_a_head_nothing_is_known_of_the_body() -> None:
    made = reply(CHUNKED[:20])
    made.unframe()
    assert (made.head, made.how, made.size, made.framed, made.content) == (None, None, 0, False, [])


def test_a_framing_error_is_kept_and_what_came_before_it_too() -> None:
    made = reply(CHUNKED + chunk(b"ab"), b"zz\r\n")
    made.unframe()
    assert made.framing_error == "not a chunk size: b'zz'"
    assert made.content == [(1, b"ab")]
    made.pending.append((3, chunk(b"more")))
    made.unframe()
    assert (made.content, made.pending) == ([(1, b"ab")], [])


@pytest.mark.parametrize(
    ("reads", "done"),
    [
        ([b"data: [DONE]\n\n"], True),
        ([b"data: {}\n\n", b"data:[DONE]"], True),
        ([b"data: [", b"DONE]\n", b"\n"], True),
        ([b"d", b"a", b"t", b"a", b": ", b"[DONE]"], True),
        ([b"data: {}\r\rdata: [DONE]\r\r"], True),
        ([b"data: [DONE]\n\n", b"data: {}\n\n"], False),
        ([b'data: {"content": "data: [DONE]"}\n\n'], False),
        ([b"xdata: [DONE]\n\n"], False),
        ([], False),
    ],
)
def test_done_ends_a_body_wherever_it_is_cut(reads: list[bytes], done: bool) -> None:
    made = reply(CHUNKED, *map(chunk, reads))
    made.unframe()
    assert made.says_done is done


def test_only_a_body_without_framing_is_complete_when_the_connection_closes() -> None:
    ends = {}
    for name, head in (("close", b"HTTP/1.1 200 OK\r\n\r\n"), ("chunked", CHUNKED)):
        made = reply(head + b"2\r\nab\r\n")
        made.end = End.CLOSED
        made.finish()
        ends[name] = made.end
    assert ends == {"close": End.COMPLETE, "chunked": End.CLOSED}
    made = reply(b"HTTP/1.1 200 OK\r\n\r\nab")
    made.end = End.RESET
    made.finish()
    assert made.end is End.RESET
